"""A piece of work for the disk thread."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Job:
    """Made on the loop, run once on the disk thread, looked at on the loop again. Nominal base.

    Jobs of one store run in the order in which they were made, never two at a time.
    """

    __slots__ = ()

    def holds(self, publishes: bytes) -> None:
        """It writes these publishes as a whole, or what is missing of them: see
        `Directory.note_publishes`. Jobs that write none are not told of any."""
        raise NotImplementedError

    def run(self) -> None:
        """Do it. Raises: OSError."""
        raise NotImplementedError
