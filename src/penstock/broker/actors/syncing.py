"""When a store syncs what it has written: before anybody is answered, after a while, or never.

    always     confirms wait for a sync                      loses nothing that was confirmed
    interval   confirms wait for the write; what was written is synced at most `interval_ns` later
    none       confirms wait for the write; only a clean stop syncs

Whatever the mode, what a process has written is there after kill -9: the kernel has it. The modes
differ in what a loss of power takes. And whatever the mode, a file goes only after copies of what
counted in it are safe (storage/log/compaction). When the last batch was safe is kept as well.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from penstock.base.errors import OperatorError
from penstock.flow.due import NEVER, DueLine, Timer


class SyncTimes:
    """When the last batch was submitted and was safe. full_since_ns: since when the batch under way
    waits for room on the disk, -1 while none does; sent_ns, done_ns: when the last one was
    submitted, and was safe. How long a sync of a file takes is measured where it is done, see
    storage/layout/files: a batch without a sync is safe at once and says nothing of the disk."""

    __slots__ = ("began_ns", "done_ns", "full_since_ns", "sent_ns")

    def __init__(self) -> None:
        self.began_ns: i64 = 0
        self.full_since_ns: i64 = -1
        self.sent_ns: i64 = 0
        self.done_ns: i64 = 0

    def ended(self, now_ns: i64) -> None:
        """The batch that was begun is safe."""
        self.full_since_ns = -1
        self.sent_ns = self.began_ns
        self.done_ns = now_ns

    def found_full(self, now_ns: i64) -> None:
        """The batch that was begun found no room."""
        self.full_since_ns = now_ns


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


class Syncing:
    """One store's syncs. rule: followed since `follow`; is_prompt: every batch ends with a sync;
    sync_due: makes the store sync what it has written; timer: runs while something was written that
    no sync under way or done has covered.
    """

    __slots__ = ("dues", "is_prompt", "rule", "timer")

    def __init__(self, sync_due: Callable[[int], None], dues: DueLine) -> None:
        self.dues = dues
        self.rule = SYNC_ALWAYS
        self.is_prompt = True
        self.timer = Timer(sync_due)

    def follow(self, rule: SyncRule) -> None:
        """Before anything is written."""
        self.rule = rule
        self.is_prompt = rule.mode == ALWAYS

    def submitted(self, is_sync: bool, has_writes: bool, now_ns: i64) -> None:
        """The disk has been given a batch, which `is_sync` or leaves its writes to a later one."""
        if self.rule.mode != INTERVAL:
            return
        if is_sync:
            self.dues.take_off(self.timer)
        elif has_writes and self.timer.due_ns == NEVER:
            self.dues.put(self.timer, int(now_ns + self.rule.interval_ns))
