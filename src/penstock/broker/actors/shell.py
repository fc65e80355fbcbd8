"""What a connection asks of whoever owns its socket: the server's sockets, or the simulator."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Shell:
    """What a connection asks of whoever owns its socket. Nominal base."""

    __slots__ = ()

    def resume(self) -> None:
        """Input may be read again."""

    def tuned(self, heartbeat_s: int) -> None:
        """The heartbeat is agreed, seconds, 0 for none: it says how long to wait for a peer."""

    def close_after_output(self) -> None:
        """Close the socket once everything written has been sent."""
