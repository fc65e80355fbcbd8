"""Staged transactions: what is staged, whose last batch is committed, and commits under way.

A commit takes any number of staged transactions of one app and batch:

    routed, checked -> queues that are full for now: looked at again every RETRY_NS
                    -> one group for the store, queues take nothing else before it
                    -> on the disk: into its queues, then into its streams, then answered

Nothing of it is delivered before the disk has all of it, or a crash could take back what a consumer
has seen. A batch not above the app's last one is answered as committed and changes nothing.
Commits of one app follow each other; those of several apps go their way side by side. A million of
messages may be in one, so whatever has to look at each of them does so in steps, and others have
their turns between.
"""

from collections.abc import Callable
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.base.limits import (
    TRANSACTION_APPS,
    TRANSACTION_BYTES,
    TRANSACTION_WAITING,
    TRANSACTIONS_BYTES,
    TRANSACTIONS_STAGED,
)
from penstock.broker.actors.actor import Line
from penstock.broker.actors.cleanup import Cleanup, InSteps
from penstock.broker.actors.cooperative import Steps
from penstock.broker.actors.log import Log
from penstock.broker.store.app_marks import AppMark, AppMarks, mark_message
from penstock.broker.store.group_request import GroupRequest
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.transaction.commit import PIECE, Commit
from penstock.broker.transaction.commit_routes import Asked, Routing, check_room, refused
from penstock.broker.transaction.stages import (
    CHECKED,
    COMMITTING,
    GONE,
    OPEN,
    STAGED,
    StagedTransaction,
)
from penstock.flow.due import NEVER, DueLine, Timer
from penstock.protocol.content import Message
from penstock.storage.log.groups import SEGMENT_BYTES_MOST, GroupEntry

RETRY_NS: Final = 20_000_000
LOOK_NS: Final = 1_000_000_000
HEAD_ROOM_BYTES: Final = 4096


class CommitsBehind:
    """Commits that wait for another one of the same app, oldest first, by virtual host and app.

    One that waits for a full queue may wait for long, and a client that loses patience closes its
    channel and asks again; so what has no channel any more is forgotten, and the rest has a bound.
    """

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[tuple[Asked, Callable[[], None]]]] = {}

    def wait(self, key: tuple[str, str], asked: Asked, begin: Callable[[], None]) -> None:
        """Call `begin` when its turn comes. Raises: ChannelFault 406 at TRANSACTION_WAITING."""
        waiting = [one for one in self._waiting.get(key, []) if not one[0].is_gone()]
        if len(waiting) >= TRANSACTION_WAITING.default:
            raise refused(
                f"{len(waiting)} commits of app '{key[1]}' wait for another one already, and "
                f"{TRANSACTION_WAITING.default} may; is one query running twice?"
            )
        self._waiting[key] = [*waiting, (asked, begin)]

    def take(self, key: tuple[str, str]) -> list[Callable[[], None]]:
        """What to call now, in order."""
        return [begin for asked, begin in self._waiting.pop(key, []) if not asked.is_gone()]


class TransactionManager:
    """stages: by their identity; reserved_bytes: of all of them; marks: by virtual host;
    under_way: by virtual host and app; behind: what waits for one of them."""

    __slots__ = (
        "_cleanup",
        "_dues",
        "_line",
        "_log",
        "_look",
        "_stores",
        "behind",
        "channels",
        "marks",
        "reserved_bytes",
        "stages",
        "under_way",
    )

    def __init__(
        self, line: Line, dues: DueLine, log: Log, stores: dict[str, StoreActor], cleanup: Cleanup
    ) -> None:
        self._line = line
        self._cleanup = cleanup
        self._dues = dues
        self._log = log
        self._stores = stores
        self._look = Timer(self.look)
        self.stages: dict[str, tuple[str, StagedTransaction]] = {}
        self.channels: dict[str, Callable[[], bool]] = {}
        self.reserved_bytes = 0
        self.marks: dict[str, AppMarks] = {}
        self.under_way: dict[tuple[str, str], Commit] = {}
        self.behind = CommitsBehind()

    # -- staging ---------------------------------------------------------------------------------

    def begin(self, vhost: str, stage: StagedTransaction, is_gone: Callable[[], bool]) -> None:
        """Reserve room for `stage`. is_gone: whether its channel has ended.

        Raises: ChannelFault 406 without room, or for one app too many."""
        if stage.bytes_max > TRANSACTION_BYTES.default:
            raise refused(
                f"max_bytes is {int(stage.bytes_max)}, and one transaction may reserve "
                f"{TRANSACTION_BYTES.default}: publish less in each, or in more of them"
            )
        self._check_app(vhost, stage.app)
        self.look(self._line.clock.monotonic_ns())
        reserved = self.reserved_bytes + int(stage.bytes_max)
        if reserved > TRANSACTIONS_BYTES.default or len(self.stages) >= TRANSACTIONS_STAGED.default:
            raise refused(
                f"{len(self.stages)} transactions have reserved {self.reserved_bytes} bytes, and "
                f"all together may reserve {TRANSACTIONS_BYTES.default} bytes, and be "
                f"{TRANSACTIONS_STAGED.default}: try again when some are committed"
            )
        self.reserved_bytes = reserved
        self.stages[stage.identity] = (vhost, stage)
        self.channels[stage.identity] = is_gone
        if self._look.due_ns == NEVER:
            self._dues.put(self._look, self._line.clock.monotonic_ns() + LOOK_NS)

    def staged(self, stage: StagedTransaction, asked: Asked) -> None:
        """`stage` is complete: it is looked through, and then gives back what it has not used.
        Refused as a commit would be for what that does not take; then it is rolled back."""
        stage.state = CHECKED
        self.channels.pop(stage.identity, None)
        self._begin(self._look_through(stage, asked))

    def _begin(self, steps: Steps[None]) -> None:
        self._cleanup.begin(InSteps(steps))

    def _look_through(self, stage: StagedTransaction, asked: Asked) -> Steps[None]:
        routing = Routing(asked.vhost, asked.rules)
        messages = stage.messages
        first = 0
        try:
            while stage.state == CHECKED and first < len(messages):
                end = min(first + PIECE, len(messages))
                routing.check(messages, first, end)
                first = end
                if end < len(messages):
                    yield 0.0
        except ChannelFault as fault:
            self.drop(stage)
            asked.refuse(fault.text, fault.code)
            return
        if stage.state != CHECKED:
            asked.refuse(is_over(stage), 404)
            return
        stage.state = STAGED
        self.reserved_bytes -= int(stage.bytes_max - stage.staged_bytes)
        stage.bytes_max = stage.staged_bytes
        asked.settle({"messages": len(messages), "bytes": int(stage.staged_bytes)})

    def drop(self, stage: StagedTransaction) -> None:
        """`stage` is over: rolled back, expired or committed.

        What was committed is on the accounts of its queues and gives its room back at once, for the
        next batch; the rest is in memory until the last of it is forgotten, and so is its room.
        """
        if self.stages.pop(stage.identity, None) is None:
            return
        self.channels.pop(stage.identity, None)
        messages, owed = stage.messages, int(stage.bytes_max)
        if stage.state == COMMITTING:
            self.reserved_bytes -= owed
            owed = 0
        stage.messages = []
        stage.state = GONE
        self._begin(self._let_go(messages, owed))

    def _let_go(self, messages: list[Message], owed: int) -> Steps[None]:
        """Forget them: the end of an object costs its time, too. owed: bytes still reserved."""
        while messages:
            del messages[-PIECE:]
            if messages:
                yield 0.0
        self.reserved_bytes -= owed

    def roll_back(self, vhost: str, app: str, batch: int, ids: list[str] | None) -> int:
        """Drop those of `ids`, or all of a batch of `app`, that no commit has taken; how many."""
        found = [
            stage
            for home, stage in self.stages.values()
            if home == vhost
            and stage.app == app
            and stage.batch == batch
            and stage.state != COMMITTING
            and (ids is None or stage.identity in ids)
        ]
        for stage in found:
            self.drop(stage)
        return len(found)

    def look(self, now_ns: int) -> None:
        """Roll back what has lived too long, and what was open when its channel ended."""
        for identity, (_, stage) in list(self.stages.items()):
            is_gone = self.channels.get(identity)
            if stage.state == OPEN and is_gone is not None and is_gone():
                self.drop(stage)
            elif stage.state != COMMITTING and now_ns >= stage.expires_ns:
                self._log.warning(
                    f"a transaction of app '{stage.app}', batch {stage.batch}, attempt "
                    f"'{stage.attempt}' was not committed in its time and is rolled back"
                )
                self.drop(stage)
        if self.stages and self._look.due_ns == NEVER:
            self._dues.put(self._look, now_ns + LOOK_NS)

    # -- marks -----------------------------------------------------------------------------------

    def marks_of(self, vhost: str) -> AppMarks:
        """Of a virtual host, made when they are first needed."""
        marks = self.marks.get(vhost)
        if marks is None:
            marks = self.marks[vhost] = AppMarks()
        return marks

    def _check_app(self, vhost: str, app: str) -> None:
        last = self.marks_of(vhost).last
        first = sum(home == vhost and other not in last for home, other in self.under_way)
        if app not in last and len(last) + first >= TRANSACTION_APPS.default:
            raise refused(
                f"vhost '{vhost}' remembers the last batch of {len(last)} apps, and "
                f"{TRANSACTION_APPS.default} may be: forget one (transaction.forget)"
            )

    def vhost_gone(self, vhost: str) -> None:
        """It was deleted: another one of that name remembers no batch of its apps."""
        for home, stage in list(self.stages.values()):
            if home == vhost and stage.state != COMMITTING:
                self.drop(stage)
        marks = self.marks_of(vhost)
        for app in list(marks.last):
            marks.forget(app)

    def restore(self, vhost: str, store: StoreActor) -> None:
        """Read the marks that `store` has, before anybody connects."""
        marks = self.marks_of(vhost)
        marks.open(vhost, store, self._line)
        damaged = marks.restore()
        if damaged:
            self._log.warning(
                f"vhost '{vhost}': {len(damaged)} marks of committed batches cannot be read; an "
                "app among them may commit its last batch a second time"
            )

    # -- committing ------------------------------------------------------------------------------

    def commit(self, asked: Asked, app: str, batch: int, ids: list[str]) -> None:
        """Make everything staged under `ids` visible, with the mark of `app`; the ticket is
        answered when the disk has it. Raises: ChannelFault, and then nothing is committed."""
        vhost = asked.vhost.name
        key = (vhost, app)
        if key in self.under_way:
            self.behind.wait(key, asked, lambda: self._later(asked, app, batch, ids))
            return
        last = self.marks_of(vhost).last.get(app)
        if last is not None and batch <= last.batch:
            self._sweep(vhost, app, last.batch)
            asked.settle({"committed": True, "already": True, "messages": 0})
            return
        self._check_app(vhost, app)
        stages = [self._stage(vhost, app, batch, identity) for identity in dict.fromkeys(ids)]
        for stage in stages:
            stage.state = COMMITTING
        commit = self.under_way[key] = Commit(
            self.complete, self.finish, self._begin, asked, app, batch, stages
        )
        self.attempt(commit)

    def _stage(self, vhost: str, app: str, batch: int, identity: str) -> StagedTransaction:
        home, stage = self.stages.get(identity, ("", None))
        if stage is None or home != vhost or stage.app != app or stage.batch != batch:
            raise refused(
                f"there is no staged transaction '{identity}' of app '{app}', batch {batch}: its "
                "time was over, it was rolled back, or the broker was started anew. Nothing is "
                "committed; stage the batch again",
                404,
            )
        if stage.state != STAGED:
            raise refused(f"transaction '{identity}' is not staged to its end (transaction.stage)")
        return stage

    def _route(self, commit: Commit) -> Steps[None]:
        routing = Routing(commit.asked.vhost, commit.asked.rules)
        left = PIECE
        for stage in commit.stages:
            first = 0
            while first < len(stage.messages):
                end = min(first + left, len(stage.messages))
                routing.add(stage.messages, first, end)
                left -= end - first
                first = end
                if left == 0:
                    left = PIECE
                    yield 0.0
        for actor, share in routing.shared.items():
            check_room(actor, share)
        commit.shared = routing.shared

    def attempt(self, commit: Commit) -> None:
        """Hand `commit` over, unless one of its queues is full for now."""
        self._begin(self._attempt(commit))

    def _attempt(self, commit: Commit) -> Steps[None]:
        if commit.line.is_held(commit.shared):
            commit.let_go()
            self._try_later(commit)
            return
        before = commit.shared
        try:
            # Queues may have come or gone, or be fuller, since it was looked at last.
            yield from self._route(commit)
        except ChannelFault as fault:
            self._fail(commit, fault)
            return
        store = self._stores.get(commit.vhost)
        if store is not None and (commit.kept < 0 or before.keys() != commit.shared.keys()):
            commit.kept = store.owner.hand_over()
        is_early = store is not None and not store.owner.has(commit.kept)
        if commit.line.is_held(commit.shared) or is_early:
            commit.let_go()
            self._try_later(commit)
            return
        if store is not None and not commit.hold():
            self._try_later(commit)
            return
        commit.line.leave()
        if store is None:
            yield from self._complete(commit)
            return
        yield from self._hand_over(commit, store)

    def _try_later(self, commit: Commit) -> None:
        """The queues of `commit` are full."""
        now_ns = self._line.clock.monotonic_ns()
        self._dues.put(Timer(lambda now_ns: self.attempt(commit)), now_ns + RETRY_NS)

    def _hand_over(self, commit: Commit, store: StoreActor) -> Steps[None]:
        size = commit.room() + HEAD_ROOM_BYTES
        if size > SEGMENT_BYTES_MOST:
            self._fail(
                commit, refused(f"a commit of {size} bytes is larger than {SEGMENT_BYTES_MOST}")
            )
            return
        marks = self.marks_of(commit.vhost)
        marks.open(commit.vhost, store, self._line)
        assert marks.lane is not None and marks.index is not None, "it was opened just now"
        commit.hold_queues()
        entries = yield from commit.entries(store)
        mark = mark_message(commit.app, commit.batch)
        entries.append(GroupEntry(marks.index, mark, True))
        commit.mark = mark
        payer, durabilities = commit.asked.account, list(commit.durabilities)
        store.offered(
            GroupRequest(marks.lane, payer, commit, mark, entries, size, durabilities, store)
        )

    def complete(self, commit: Commit) -> None:
        """The disk has everything of `commit`: it goes into its queues and streams."""
        self._begin(self._complete(commit))

    def _complete(self, commit: Commit) -> Steps[None]:
        marks = self.marks_of(commit.vhost)
        marks.set(commit.app, AppMark(commit.batch, commit.mark))
        if commit.asked.vhost.is_leaving:
            marks.forget(commit.app)
        yield from commit.put_in_queues()
        for stage in commit.stages:
            self.drop(stage)
        self._sweep(commit.vhost, commit.app, commit.batch)
        yield from commit.put_in_streams()

    def finish(self, commit: Commit) -> None:
        """Its streams have their shares too: it is answered."""
        count = sum(len(share.messages) for share in commit.shared.values())
        commit.asked.settle({"committed": True, "already": False, "messages": count})
        self._go_on(commit)

    def _fail(self, commit: Commit, fault: ChannelFault) -> None:
        """Nothing of it is committed; it may be committed again while its stages live."""
        commit.line.leave()
        commit.let_go()
        for stage in commit.stages:
            stage.state = STAGED
        commit.asked.refuse(fault.text, fault.code)
        self._go_on(commit)

    def _go_on(self, commit: Commit) -> None:
        """Those that waited for `commit` have their turn."""
        key = (commit.vhost, commit.app)
        self.under_way.pop(key, None)
        for begin in self.behind.take(key):
            begin()

    def _later(self, asked: Asked, app: str, batch: int, ids: list[str]) -> None:
        try:
            self.commit(asked, app, batch, ids)
        except ChannelFault as fault:
            asked.refuse(fault.text, fault.code)

    def _sweep(self, vhost: str, app: str, batch: int) -> None:
        """What `app` has staged for batches up to `batch` is of attempts that were given up."""
        for home, stage in list(self.stages.values()):
            is_past = home == vhost and stage.app == app and stage.batch <= batch
            if is_past and stage.state != COMMITTING:
                self.drop(stage)


def is_over(stage: StagedTransaction) -> str:
    """What is said to whoever goes on with it."""
    return f"transaction '{stage.identity}' is over: its time has passed, or it was rolled back"
