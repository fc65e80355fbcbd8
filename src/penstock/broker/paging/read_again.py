"""A read of a queue that pages has failed: it is tried again, and only what is gone is lost.

    no such file     its messages are lost, as bytes are that do not fit their checksum
    EIO              a path to the disk that is away for a moment, or a sector that is gone: tried
                     for store_read_patience_ms, and what it was for is lost then
    anything else    no handle, no memory, no permission: tried until there is
Bytes that came and do not fit are found by the job itself, and are none of this.
"""

from collections.abc import Callable
from errno import EIO, ENOENT
from typing import Final

from mypy_extensions import i64

from penstock.base.limits import STORE_READ_PATIENCE_MS
from penstock.broker.actors.actor import Actor
from penstock.broker.store.group_commit import RETRY_NS
from penstock.broker.store.store_actor import StoreActor
from penstock.flow.due import Timer
from penstock.storage.log.reading import ReadJob

NS_PER_MS: Final = 1_000_000
NO_FAILURE: Final = -1


class ReadAgain:
    """Of `actor`, which reads what `store` has written. since_ns: when the first of the reads
    failed that have failed since, NO_FAILURE while they do not; has_lost: one of these was given
    up, and so is what fails behind it; try_again: called when it is time for the next."""

    __slots__ = ("actor", "has_lost", "since_ns", "store", "timer")

    def __init__(self, actor: Actor, store: StoreActor, try_again: Callable[[int], None]) -> None:
        self.actor = actor
        self.store = store
        self.since_ns: i64 = NO_FAILURE
        self.has_lost = False
        self.timer = Timer(try_again)

    def is_waiting(self) -> bool:
        """Whether the next read has to wait."""
        return self.timer.due_ns >= 0

    def failed(self, job: ReadJob, error: OSError) -> list[int]:
        """`job` ended with `error`: which of its positions are lost, ascending. For the others it
        waits until `try_again` is called."""
        now_ns: i64 = self.actor.line.clock.monotonic_ns()
        is_first = self.since_ns == NO_FAILURE
        if is_first:
            self.since_ns = now_ns
        is_lost = is_lost_by(error, now_ns - self.since_ns)
        if is_first or (is_lost and not self.has_lost):
            self.has_lost = is_lost
            self.store.owner.read_failed(self.actor.identity, error, is_lost)
        if is_lost:
            return unread(job)
        self.store.dues.put(self.timer, int(now_ns + RETRY_NS))
        return job.damaged

    def succeeded(self) -> None:
        """A read has come to its end."""
        if self.since_ns == NO_FAILURE:
            return
        self.since_ns = NO_FAILURE
        if not self.has_lost:
            self.store.owner.reads_again(self.actor.identity)
        self.has_lost = False


def is_lost_by(error: OSError, failing_ns: i64) -> bool:
    """Whether what could not be read for so long will not come back. A bug of ours has no number,
    and is not to be met again and again."""
    if error.errno is None or error.errno == ENOENT:
        return True
    return error.errno == EIO and failing_ns >= STORE_READ_PATIENCE_MS.default * NS_PER_MS


def unread(job: ReadJob) -> list[int]:
    """What a read that failed has not found: what is damaged, and what is left of the stretch at
    which it failed. What stands behind that may well be read."""
    found = {int(one.position) for one in job.found}
    lost = set(job.damaged)
    for part in job.stretches:
        rest = [one for one in part.positions if one not in found and one not in lost]
        if rest:
            return sorted([*job.damaged, *rest])
    return job.damaged
