"""The machine of queue_twin with a disk and hardly any memory: its twin knows nothing of either.

Whenever both come to rest the disk has done all it had to, so everything happens at the instant at
which it would have happened in memory.
"""

from collections.abc import Mapping
from types import MappingProxyType

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from penstock.broker.paging.pager import Pager
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.group_commit import StoreOwner
from penstock.broker.store.store_actor import StoreActor
from penstock.flow.profile import profile_named
from penstock.protocol.content import Message
from penstock.queues.bodies import is_large
from penstock.queues.consumers import Delivery
from penstock.queues.entry import is_stub
from penstock.queues.line import BODIES, MessageLine
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.queues.rabbit_paging import PendingAcks
from penstock.queues.rules import DROP_NAMES
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk
from penstock.storage.log.log import MessageLog
from tests.property.queue_twin import QueueMachine, number_of

EITHER = {"expired", "maxlen"}
TARGETS = (0, 200, 400, 700)
"""In bytes; a message takes about 180."""


class Quiet(StoreOwner):
    """Nothing but messages is kept."""

    def hand_over(self) -> int:
        return 0

    def has(self, mark: int) -> bool:
        return True

    def will_write(self, size_bytes: int) -> None:
        pass


class Open(PendingAcks):
    """What is unanswered. numbers: of messages whose bodies have left memory."""

    def __init__(self, actor: QueueActor, found: list[Delivery]) -> None:
        self.actor = actor
        self.found = found
        self.numbers: dict[Message, int] = {}

    def newest(self, count: int) -> list[Delivery]:
        whole = [one for one in self.found if one.message.raw]
        return sorted(whole, key=lambda one: -one.position)[:count]

    def replace(self, delivery: Delivery, stub: Message) -> None:
        self.numbers[stub] = number_of(delivery.message)
        self.actor.unacked_bytes -= len(delivery.message.raw)
        delivery.message = stub


class PagedQueueMachine(QueueMachine):
    """acks: what is unanswered, of which bodies may be on the disk only; is_ordered: whether deaths
    of one instant are in order; targets: of memory."""

    # What has to be read takes more than one turn to get to a consumer, so it lives no instant.
    shortest_ms = 1
    is_ordered = True
    targets = TARGETS
    fixed: Mapping[str, object] = MappingProxyType({"priorities": 0, "last_value": ""})

    def _keep(self) -> None:
        self.disk = HandDisk()
        log = MessageLog(SimDisk(), Dice(1), 3000)
        strategy = profile_named("penstock").strategy()
        store = StoreActor("/", log, self.disk, self.dues, strategy, Quiet(), self.line)
        index = log.open_queue(1)
        self.durability = StoreDurability(store, store.join(self.actor, index), index, 0)
        self.actor.durability = self.durability
        self.pager = Pager(self.actor, self.durability, TARGETS[1], self._damaged)
        self.actor.paging = self.pager
        self.actor.page_above = TARGETS[1]
        self.acks = Open(self.actor, self.sink.open)

    def _damaged(self, actor: QueueActor, count: int) -> None:
        raise AssertionError(f"{count} messages cannot be read")

    @rule(which=st.integers(0, len(TARGETS) - 1))
    def aim(self, which: int) -> None:
        """What other queues hold leaves more or less for this one."""
        self.pager.aim(self.targets[which])
        self.actor.wake()
        self._turn()

    @precondition(lambda self: self.sink.open)
    @rule(bytes_=st.sampled_from((0, 60)))
    def page_unanswered(self, bytes_: int) -> None:
        self.pager.page_unanswered(self.acks, bytes_)
        self._turn()

    def _number(self, delivery: Delivery) -> int:
        found = self.acks.numbers.get(delivery.message)
        return number_of(delivery.message) if found is None else found

    def _rest(self) -> None:
        super()._rest()
        while self.disk.work():
            super()._rest()

    def _get(self) -> Message | None:
        while True:
            found = super()._get()
            if found is not None or not self.pager.is_read_awaited():
                return found
            self._rest()

    def _check_deaths(self) -> None:
        """What is over a limit and has been read for that dies of age if its time is up by then."""
        assert len(self.log.dead) == len(self.dead)
        found, expected = self.log.dead, self.dead
        if self.acks.numbers or not self.is_ordered:
            # What came back too often is read before it dies.
            found, expected = sorted(found), sorted(expected)
        for one, other in zip(found, expected, strict=True):
            assert one == other or (one[0] == other[0] and {one[1], other[1]} <= EITHER)
        for at, name in enumerate(DROP_NAMES):
            assert name in EITHER or self.queue_limits.drops[at] == self.drops[at]
        assert sum(self.queue_limits.drops) == sum(self.drops)

    def _check_what_rests(self) -> None:
        """What is in memory is as much as is charged, and what is on the disk is the rest."""
        messages = self.actor.messages
        there = messages.ready_messages()
        lines: list[MessageLine] = []
        if isinstance(messages, MessageLine):
            lines = [messages]
        elif isinstance(messages, PriorityQueue):
            lines = [level.line for level in messages.levels]
        pieces_bytes = sum(int(line.behind.delta.ram_bytes) for line in lines)
        in_pieces = sum(int(line.behind.delta.count) for line in lines)
        assert len(there) + in_pieces == len(self.ready)
        known = {one.number for one in self.ready}
        assert all(number_of(one) in known for one in there if one.raw)
        raw = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in there)
        assert messages.bytes_ready == raw + pieces_bytes
        assert not there or messages.ready_count() == 0 or messages.at_hand() > 0
        for line in lines:
            self._check_line(line)
        if isinstance(messages, PriorityQueue):
            self._check_entries(messages)
        out = sum(len(one.message.raw) + MESSAGE_OVERHEAD_BYTES for one in self.sink.open)
        assert self.account.stored_messages == len(there) + len(self.sink.open)
        assert self.account.stored_bytes == messages.bytes_ready + out
        live = self.durability.store.log.live_count(self.durability.index)
        assert live <= len(self.ready) + len(self.sink.open)

    def _check_line(self, line: MessageLine) -> None:
        """The books of one line, whatever it may forget."""
        entries = line.present() if line.has_entries else []
        stubs = [one for one in line.ready_messages() if is_stub(one)]
        assert line.paged_count() == len(stubs) + line.behind.delta.count
        held = [one.message for one in entries or line.returned]
        assert line.stub_entries == sum(is_stub(one) for one in held)
        assert line.entry_bytes == sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in held)
        front = line.ring.every()
        assert line.ring.bytes == sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in front)
        assert line.behind.delta.count > 0 or not line.behind.q2
        assert line.behind.q3 or line.behind.delta.count > 0 or len(line.behind.q1) == 0
        assert line.behind.is_split == bool(line.behind.q3 or line.behind.delta.count)
        assert all(one.is_ready for one in entries)
        if line.residence == BODIES:
            large = [one for one in entries if is_large(one)]
            sizes = [len(one.message.raw) + MESSAGE_OVERHEAD_BYTES for one in large]
            assert line.bodies.bytes == sum(sizes) and line.bodies.count == len(sizes)
            listed = {id(one) for one in (*line.bodies.near, *line.bodies.fresh)}
            assert all(id(one) in listed for one in large)
            assert not line.behind.is_split

    def _check_entries(self, messages: PriorityQueue) -> None:
        """Each level has its first message in memory, and its part in the sums."""
        entries = [one for level in messages.levels for one in level.line.present()]
        assert messages.count == len(entries)
        assert not any(one.is_ready for one in messages.out.values())
        assert messages.lifetimes.uneven_count == sum(one.is_uneven for one in entries)
        assert (
            messages.body_bytes_ready == sum(one.size for one in self.ready)
            or messages.levels[0].sized_from > 0
        )
        counts: dict[int, int] = {}
        for one in self.ready:
            counts[one.level] = counts.get(one.level, 0) + 1
        for level in messages.levels:
            line = level.line
            assert level.ready == line.ready_count() == counts.pop(int(line.level), 0)
            assert level.ready == 0 or line.at_hand() > 0
            assert all(one.level == line.level for one in line.present())
        assert not counts
        if messages.last is not None:
            for key, entry in messages.last.by_key.items():
                assert entry.is_ready and entry.key == key
