"""When a store syncs what it has written: before anybody is answered, after a while, or never.

    always     confirms wait for a sync                      loses nothing that was confirmed
    interval   confirms wait for the write; what was written is synced at most `interval_ns` later
    none       confirms wait for the write; only a clean stop syncs

Whatever the mode, what a process has written is there after kill -9: the kernel has it. The modes
differ in what a loss of power takes. And whatever the mode, a file goes only after copies of what
counted in it are safe (storage/log/compaction).
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64, mypyc_attr

from penstock.base.errors import OperatorError
from penstock.flow.due import NEVER, DueLine, Timer
from penstock.storage.log.batch import Batch
from penstock.storage.log.log import MessageLog

ALWAYS: Final = "always"
INTERVAL: Final = "interval"
NONE: Final = "none"
MODES: Final = (ALWAYS, INTERVAL, NONE)
NS_PER_MS: Final = 1_000_000


class SyncRule:
    """mode: one of MODES; interval_ns: from a write to its sync, in the mode INTERVAL.

    Raises: OperatorError for a mode that there is not."""

    __slots__ = ("interval_ns", "mode")

    def __init__(self, mode: str, interval_ms: int) -> None:
        if mode not in MODES:
            raise OperatorError(f"store_sync = '{mode}' is unknown; one of: {', '.join(MODES)}")
        self.mode = mode
        self.interval_ns: i64 = interval_ms * NS_PER_MS

    def words(self) -> str:
        """What it does, and what it risks."""
        if self.mode == ALWAYS:
            return "always: a confirm means that the message survives a loss of power"
        if self.mode == INTERVAL:
            return (
                f"interval: a loss of power takes up to {self.interval_ns // NS_PER_MS} ms of "
                "confirmed messages; kill -9 takes none"
            )
        return "none: a loss of power takes confirmed messages, without a bound; kill -9 takes none"


SYNC_ALWAYS: Final = SyncRule(ALWAYS, 0)


@mypyc_attr(allow_interpreted_subclasses=True)
class Syncing:
    """One store's syncs. rule: followed since `follow`; flush: makes the store take a batch;
    timer: runs while something was written that no sync under way or done has covered.
    """

    __slots__ = ("dues", "flush", "is_prompt", "log", "rule", "timer")

    def __init__(self, log: MessageLog, flush: Callable[[int], None], dues: DueLine) -> None:
        self.log = log
        self.flush = flush
        self.dues = dues
        self.rule = SYNC_ALWAYS
        self.is_prompt = True
        self.timer = Timer(self._sync)

    def follow(self, rule: SyncRule) -> None:
        """Before anything is written."""
        self.rule = rule
        self.is_prompt = rule.mode == ALWAYS
        if rule.mode == NONE:
            self.log.make_lazy()

    def submitted(self, batch: Batch, now_ns: i64) -> None:
        """The disk has been given `batch`."""
        if self.rule.mode != INTERVAL:
            return
        if batch.is_sync:
            self.dues.take_off(self.timer)
        elif batch.chunks and self.timer.due_ns == NEVER:
            self.dues.put(self.timer, int(now_ns + self.rule.interval_ns))

    def _sync(self, now_ns: int) -> None:
        self.log.wants_sync = True
        self.flush(now_ns)
