"""Whoever first caused a piece of work; the nominal base of flow's accounts.

It stands on the ground floor so that a message can carry its cause through rooms that know nothing
of accounts (seed S4: all work is charged to its first cause).
"""


class Cause:
    """A named first cause. `name`: unique while it lives, for example `conn:127.0.0.1:50412`."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name
