"""What the loop knows of producers and consumers alike."""

from penstock.client.events import ClientEvent
from penstock.perf.link import Link


class Member:
    """One connection with a part in the run; nominal base of Producer and Consumer.

    name: for people. failed: why its channel or connection was closed, None while it is open.
    """

    def __init__(self, name: str, link: Link) -> None:
        self.name = name
        self.link = link
        self.failed: str | None = None

    def take(self, events: list[ClientEvent], now_ns: int) -> None:
        """What the broker said, in order."""
        raise NotImplementedError

    def fail(self, code: int, text: str) -> None:
        """Its channel or connection was closed. The first reason is kept."""
        if self.failed is None:
            self.failed = f"{self.name}: {code} {text}" if code else f"{self.name}: {text}"
