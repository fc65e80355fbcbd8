"""The first cause of a piece of work; the nominal base of flow's accounts.

It stands on the ground floor so that a message can carry its cause through rooms that know nothing
of accounts (seed S4: all work is charged to its first cause).
"""

from mypy_extensions import i64


class Cause:
    """A named first cause. `name`: unique while it lives, for example `conn:127.0.0.1:50412`.

    The base pays for nothing; it is the cause of messages without a publisher."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def charge(self, messages: i64, bytes_: i64) -> None:
        """Work of this cause begins: `messages`, `bytes_` 0.. ."""

    def repay(self, messages: i64, bytes_: i64) -> None:
        """Work of this cause is done."""

    def store(self, messages: i64, bytes_: i64) -> None:
        """Messages of this cause come to rest in a queue."""

    def unstore(self, messages: i64, bytes_: i64) -> None:
        """Messages of this cause have left a queue, however."""

    def share(self, bytes_: i64) -> None:
        """So many bytes more (fewer, if negative) are stored twice in the books and once in
        memory."""
