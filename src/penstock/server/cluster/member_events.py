"""What becomes of links, of the broker and of the directory: told on the loop, to the member."""

from penstock.replication.positions import Position
from penstock.server.cluster.pipe import Ready


class LinkEvents:
    """What becomes of links; the member's, and a test's."""

    def link_up(self, name: str) -> None:
        raise NotImplementedError

    def link_down(self, name: str, *, is_refused: bool) -> None:
        """Said again with every attempt. is_refused: its machine answers, and no process listens
        there."""
        raise NotImplementedError

    def received(self, name: str, kind: int, payload: bytes) -> None:
        raise NotImplementedError

    def said(self, words: str) -> None:
        raise NotImplementedError

    def link_failed(self, fault: Exception) -> None:
        """Whoever was told of a link has raised it: a bug, and no fault of the peer's."""
        raise NotImplementedError


class ChildEvents:
    """What a broker has to say; the member's."""

    def recorded(self, entries: list[tuple[bytes, bytes]]) -> None:
        """Its next entries, each with the publishes that are in the log with it as a whole."""
        raise NotImplementedError

    def synced(self, count: int) -> None:
        """So many of its entries are on the local disk."""
        raise NotImplementedError

    def marked(self, number: int) -> None:
        """Everything it had written when it was asked was recorded before this."""
        raise NotImplementedError

    def ready(self, ready: Ready) -> None:
        raise NotImplementedError

    def failed(self, words: str) -> None:
        """It ends, because of its disk or its directory."""
        raise NotImplementedError

    def stalled(self, ms: int) -> None:
        """Its disk has been at one job for so long."""
        raise NotImplementedError

    def mirrored(self, is_mirrored: bool) -> None:
        """Whether it has mirrored queues."""
        raise NotImplementedError

    def changed_settings(self, changes: dict[str, str]) -> None:
        """By an operator, for good."""
        raise NotImplementedError

    def ended(self, is_clean: bool) -> None:
        """The process is gone. is_clean: it was asked to stop, and did so in order."""
        raise NotImplementedError


class DiskEvents:
    """What becomes of the directory; called on the loop. The member's."""

    def applied(self, position: Position) -> None:
        """It is at `position`, durably."""
        raise NotImplementedError

    def persisted(self, number: int) -> None:
        raise NotImplementedError

    def disk_failed(self, words: str) -> None:
        raise NotImplementedError
