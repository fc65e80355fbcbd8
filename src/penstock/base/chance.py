"""Chance as an argument, so that one seed replays a whole run."""


class Chance:
    """A source of unpredictable or seeded bytes. Nominal base; the server's uses the system's."""

    def token(self, size: int) -> bytes:
        """`size` bytes, 1.. ."""
        raise NotImplementedError
