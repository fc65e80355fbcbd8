"""Where a publisher's time goes: every nanosecond belongs to exactly one reason.

BUSY      it is sending, or the tool itself is at work elsewhere
IDLE      nothing is due at the rate asked for
SOCKET    bytes wait because the broker does not read them         } blocked
ALARM     the broker said connection.blocked or channel.flow       }
CONFIRMS  as many publishes are unconfirmed as were allowed
"""

from enum import IntEnum


class Reason(IntEnum):
    """Why a publisher is not sending right now."""

    BUSY = 0
    IDLE = 1
    SOCKET = 2
    ALARM = 3
    CONFIRMS = 4


class HeldTime:
    """Nanoseconds per reason for one publisher. The sum is the time since `start_ns`, exactly."""

    __slots__ = ("_reason", "_since_ns", "_spent")

    def __init__(self, start_ns: int) -> None:
        self._reason = Reason.BUSY
        self._since_ns = start_ns
        self._spent = [0] * len(Reason)

    def enter(self, reason: Reason, now_ns: int) -> None:
        """From `now_ns` (never earlier than before) on, time belongs to `reason`."""
        if reason is self._reason:
            return
        self.settle(now_ns)
        self._reason = reason

    def settle(self, now_ns: int) -> None:
        """Bring the books up to `now_ns`."""
        assert now_ns >= self._since_ns, "time never goes back"
        self._spent[self._reason] += now_ns - self._since_ns
        self._since_ns = now_ns

    def snapshot(self) -> tuple[int, ...]:
        """Nanoseconds per reason, in the order of Reason."""
        return tuple(self._spent)
