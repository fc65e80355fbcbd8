"""Who hears what the disk of a message store does: a nominal base, for broker/node/store_desk."""

from mypy_extensions import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class StoreOwner:
    """name: of the store, everywhere. The broker's keeps the alarm."""

    __slots__ = ()

    def hand_over(self) -> int:
        """What queues need beside their messages goes to the disk before the batch that is about to
        be submitted; a mark for `has`."""
        raise NotImplementedError

    def has(self, mark: int) -> bool:
        """Whether the disk has all that `hand_over` meant when it gave `mark`."""
        raise NotImplementedError

    def will_write(self, size_bytes: int) -> None:
        """A batch of so many bytes is about to be submitted."""
        raise NotImplementedError

    def store_failed(self, name: str, error: OSError) -> None:
        """Nothing more is written."""
        raise NotImplementedError

    def disk_full(self, name: str, error: OSError) -> None:
        """A batch waits for room."""
        raise NotImplementedError

    def disk_has_room(self, name: str) -> None:
        """The batch that waited is on the disk."""
        raise NotImplementedError

    def read_failed(self, queue: str, error: OSError, is_lost: bool) -> None:
        """What the actor `queue` reads cannot be read now; is_lost: nor ever."""
        raise NotImplementedError

    def reads_again(self, queue: str) -> None:
        """It can be read."""
        raise NotImplementedError
