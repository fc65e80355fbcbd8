"""Time as an argument: the clock everything below the server is handed."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Clock:
    """Monotonic and wall time in nanoseconds. Nominal base; see ManualClock and the server's."""

    __slots__ = ()

    def monotonic_ns(self) -> int:
        raise NotImplementedError

    def wall_ns(self) -> int:
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class ManualClock(Clock):
    """A clock driven by hand, for tests and simulation; starts at `start_ns`, never goes back."""

    __slots__ = ("_now_ns",)

    def __init__(self, start_ns: int = 1_000_000_000) -> None:
        self._now_ns = start_ns

    def monotonic_ns(self) -> int:
        return self._now_ns

    def wall_ns(self) -> int:
        return 1_700_000_000_000_000_000 + self._now_ns

    def advance(self, ns: int) -> None:
        """Move forward by `ns` nanoseconds, 0..; raises AssertionError on a negative step."""
        assert ns >= 0, "time never goes back"
        self._now_ns += ns
