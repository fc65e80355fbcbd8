"""Whether a client has been told connection.blocked, for any number of causes at once.

    quiet  --first cause-->  told (send blocked)  --last cause gone-->  quiet (send unblocked)

Causes come and go in any order and more than once; what is sent alternates strictly, whoever asks
(scenarios 70 and 118). A second cause sends nothing: the reason a client knows is the first one's.
Pure; the connection's notices send.
"""

from typing import Final

ALARM: Final = "alarm"
HOLD: Final = "hold"


class BlockedNotice:
    """One connection's pair of messages. `causes`: why it is told, in the order they came."""

    __slots__ = ("causes",)

    def __init__(self) -> None:
        self.causes: list[str] = []

    def add(self, cause: str) -> bool:
        """`cause` holds publishes; True when connection.blocked must go out now."""
        if cause in self.causes:
            return False
        self.causes.append(cause)
        return len(self.causes) == 1

    def remove(self, cause: str) -> bool:
        """`cause` is over; True when connection.unblocked must go out now."""
        if cause not in self.causes:
            return False
        self.causes.remove(cause)
        return not self.causes
