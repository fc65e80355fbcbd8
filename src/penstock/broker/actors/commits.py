"""Commits of a transactional channel that wait until everything published in them is safe."""

from mypy_extensions import i64, mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class Commits:
    """lasts: of each commit that is not answered, oldest first, the number of its last publish;
    refused: the lowest number that a queue will never take, 0 for none. The publishes of a
    transaction are numbered when it is committed (broker/actors/confirms), so those up to a
    commit's last one are its own and those of commits before it.

    Bound: what is waited for rests in queues and hops, which are bounded themselves. Nominal base:
    whose it is hears of a commit that failed.
    """

    __slots__ = ("lasts", "refused")

    def __init__(self) -> None:
        self.lasts: list[int] = []
        self.refused: i64 = 0

    def note_refused(self, sequence: i64) -> None:
        """A queue will never take this publish."""
        if self.refused == 0 or sequence < self.refused:
            self.refused = sequence

    def is_next_done(self, answered_below: i64) -> bool:
        """Whether the oldest commit has everything, all below `answered_below` being answered."""
        return len(self.lasts) > 0 and i64(self.lasts[0]) < answered_below

    def take(self) -> bool:
        """The oldest commit is answered; False when some of it was refused."""
        last: i64 = i64(self.lasts.pop(0))
        return self.refused == 0 or self.refused > last

    def failed(self) -> None:
        """A commit was carried out in part only."""
        raise NotImplementedError
