"""A paged queue with real logs on a simulated disk, and its naive twin: a list of bodies.

The rig does what broker/paging/pager and the durability do, by hand: appends what was handed over,
runs batches and reads, settles what leaves.
"""

from functools import cache

from penstock.broker.paging.pager import plan
from penstock.flow.account import Account
from penstock.protocol.content import Message, make_content
from penstock.queues.backlog import Paged
from penstock.queues.entry import is_stub
from penstock.queues.line import MessageLine
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES, ReadRequest
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.index import QueueIndex
from penstock.storage.layout.stored import Stored
from penstock.storage.log.log import MessageLog
from penstock.storage.log.reading import Found, ReadJob

NOW_MS = 1_700_000_000_000
QUEUE_ID = 1
SPILL_ID = 1_000_001


@cache
def envelope(size: int) -> bytes:
    """Everything before a body of `size` bytes, 1.. ."""
    header = b"\x00\x3c\x00\x00" + size.to_bytes(8, "big") + b"\x00\x00"
    return make_content(1, b"", header, b"x" * size, 131_072).raw[: -size - 1]


def message(body: bytes, origin: Account) -> Message:
    made = Message(envelope(len(body)) + body + b"\xce", len(body))
    made.origin = origin
    return made


class PagedRig:
    """is_durable: it keeps persistent messages anyway, so it has two indexes. expected: what the
    queue must deliver, in order; payers: whom each message is charged to; out: what is out with
    consumers, by position; numbers: which message that is."""

    def __init__(self, is_durable: bool = True, segment_bytes: int = 3000) -> None:
        self.log = MessageLog(SimDisk(), Dice(1), segment_bytes)
        self.scratch = MessageLog(SimDisk(), Dice(2), segment_bytes, is_scratch=True)
        self.spill = self.scratch.open_queue(SPILL_ID)
        self.index = self.log.open_queue(QUEUE_ID) if is_durable else self.spill
        self.is_durable = is_durable
        self.origins = [Account(f"conn:{name}", None, None, 0) for name in "abc"]
        self.queue = MessageLine()
        self.lanes: list[tuple[QueueIndex, Message]] = []
        self.expected: list[tuple[int, bytes]] = []
        self.out: dict[int, Message] = {}
        self.numbers: dict[int, int] = {}
        self.bodies: dict[int, bytes] = {}
        self.payers: dict[int, Account] = {}
        self.count = 0

    @property
    def paged(self) -> MessageLine:
        if not self.queue.is_paging:
            self.queue.begin_paging(self.index, self.spill)
        return self.queue

    # -- publishing ------------------------------------------------------------------------------

    def publish(self, size: int = 20, is_persistent: bool = True, origin: int = 0) -> Message:
        body = b"%06d" % self.count + b"x" * size
        made = message(body, self.origins[origin])
        self.queue.add(made)
        made.origin.store(1, len(made.raw) + MESSAGE_OVERHEAD_BYTES)
        has_delta = self.queue.behind.delta.count > 0
        if self.is_durable and (is_persistent or has_delta):
            made.stored = stored = Stored()
            stored.join(QUEUE_ID)
            self.lanes.append((self.index, made))
        self.expected.append((self.count, body))
        self.bodies[self.count] = body
        self.payers[self.count] = self.origins[origin]
        self.count += 1
        return made

    def save(self, messages: list[Message]) -> None:
        self.lanes.extend((self.spill, one) for one in messages)

    def append(self, count: int = 1 << 30) -> None:
        """The stores take up to `count` of what was handed over."""
        for index, one in self.lanes[:count]:
            stored = one.stored
            assert isinstance(stored, Stored)
            if stored.awaits(index.queue_id):
                log = self.log_of(index)
                log.append(index, one, NOW_MS, log is self.log)
        del self.lanes[:count]

    def flush(self) -> None:
        """The disk does what the stores have taken."""
        for log in (self.log, self.scratch):
            batch = log.take_batch(True)
            if batch is not None:
                batch.run()
                log.done(batch)

    def log_of(self, index: QueueIndex) -> MessageLog:
        return self.log if index is self.index and self.is_durable else self.scratch

    # -- reading ---------------------------------------------------------------------------------

    def begin_read(self, bytes_max: int) -> tuple[ReadRequest, ReadJob] | None:
        """Ask for a read and have it done; what it has found did not arrive yet."""
        request = self.paged.next_read(bytes_max, True)
        if request is None:
            return None
        job = plan(self.log_of(request.index), request, request.count, bytes_max)
        job.run()
        assert not job.damaged
        return request, job

    def read(self, bytes_max: int) -> int:
        begun = self.begin_read(bytes_max)
        return 0 if begun is None else int(self.paged.arrived(begun[0], begun[1].found))

    # -- leaving ---------------------------------------------------------------------------------

    def take(self) -> bytes:
        """Deliver the first message and check that it is the right one."""
        taken = self.queue.take()
        assert not is_stub(taken)
        number, body = self.expected.pop(0)
        assert taken.body() == body
        assert taken.origin is self.payers[number]
        assert int(self.queue.position) not in self.out
        self.out[int(self.queue.position)] = taken
        self.numbers[int(self.queue.position)] = number
        return body

    def requeue(self, position: int) -> None:
        one = self.out.pop(position)
        self.queue.put_back(position, one)
        number = self.numbers.pop(position)
        self.expected.append((number, self.bodies[number]))
        self.expected.sort()

    def ack(self, position: int) -> None:
        one = self.out.pop(position)
        del self.numbers[position]
        one.origin.unstore(1, len(one.raw) + MESSAGE_OVERHEAD_BYTES)
        self.forget(one)

    def forget(self, one: Message) -> None:
        """`one` has left the queue for good."""
        stored = one.stored
        if not isinstance(stored, Stored):
            return
        for index in {self.index, self.spill}:
            position = stored.leave(index.queue_id)
            if position > 0:
                self.log_of(index).settle(index, int(position))

    def page_out(self, position: int) -> None:
        """What is out with a consumer leaves memory."""
        one = self.out[position]
        if not is_stub(one):
            paged = Paged()
            self.out[position] = self.paged.page_out(one, paged)
            self.save(paged.charged)

    def lose(self, wanted: ReadRequest, found: Found) -> None:
        """A message that was to be read is given up, if it still is what comes next."""
        if self.paged.lost(wanted, found.position):
            self.log_of(wanted.index).settle(wanted.index, int(found.position))
            body = found.message.body()
            self.expected.remove((int(body[:6]), body))

    def shed(self) -> None:
        """The first message is given up, in whatever form it is."""
        one = self.queue.shed()
        one.origin.unstore(1, len(one.raw) + MESSAGE_OVERHEAD_BYTES)
        self.expected.pop(0)
        self.forget(one)

    def purge(self) -> int:
        for one in self.queue.ready_messages():
            self.forget(one)
        count = int(self.queue.pieces_count())
        for index, first, last in self.queue.stretches():
            count -= self.log_of(index).settle_between(index, first, last + 1)
        assert count == 0
        self.expected.clear()
        purged = self.queue.purge()
        while purged.forget(7):
            pass
        return purged.count

    def drain(self, bytes_max: int = 2000) -> list[bytes]:
        """Deliver and acknowledge everything."""
        found: list[bytes] = []
        while self.queue.ready_count() > 0:
            if self.queue.at_hand() == 0:
                self.append()
                self.flush()
                assert self.read(bytes_max) > 0, "nothing is at hand, and nothing can be read"
            for _ in range(int(self.queue.at_hand())):
                found.append(self.take())
                self.ack(int(self.queue.position))
        return found

    # -- laws ------------------------------------------------------------------------------------

    def check(self) -> None:
        """Counts and books, and how the parts stand to each other (flow-semantics 6.1)."""
        queue = self.queue
        assert queue.ready_count() == len(self.expected)
        assert 0 <= queue.at_hand() <= queue.ready_count()
        held = [*queue.ready_messages(), *self.out.values()]
        stored = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in held)
        unacked = sum(len(one.raw) + MESSAGE_OVERHEAD_BYTES for one in self.out.values())
        pieces = queue.behind.delta.ram_bytes
        assert queue.bytes_ready == stored - unacked + pieces
        assert sum(int(one.stored_bytes) for one in self.origins) == stored + pieces
        deltas = queue.behind.delta.count
        in_memory = sum(int(one.stored_messages) for one in self.origins)
        assert in_memory == len(held)
        assert in_memory + deltas == len(self.expected) + len(self.out)
        self._check_parts(queue)

    def _check_parts(self, queue: MessageLine) -> None:
        behind = queue.behind
        assert behind.delta.count > 0 or not behind.q2
        assert behind.q3 or behind.delta.count > 0 or len(behind.q1) == 0
        assert behind.is_split == bool(
            behind.q3 or behind.q2 or behind.delta.count or len(behind.q1)
        )
        back = [entry.message for entry in queue.returned if is_stub(entry.message)]
        assert queue.stub_entries == len(back)
        stubs = [one for one in (*behind.q3, *behind.q2, *back) if is_stub(one)]
        assert queue.stub_count + behind.stub_count == len(stubs)
        stub_bytes = queue.stub_bytes + behind.stub_bytes
        assert stub_bytes == sum(int(one.header_bytes + one.body_bytes) for one in stubs)
        assert not any(is_stub(one) for one in queue.ring.every())
        assert queue.paged_count() == len(stubs) + behind.delta.count
        assert queue.ram_count() >= 0
        front = sum(len(one.raw) + 130 for one in queue.ring.every())
        assert queue.ring.bytes == front
        tail = sum(len(one.raw) + 130 for one in behind.q1.every())
        assert behind.q1.bytes == tail
        returned = sum(len(entry.message.raw) + 130 for entry in queue.returned)
        assert queue.entry_bytes == returned
        for piece in behind.delta.pieces:
            assert piece.count > 0
            assert sum(int(payer.count) for payer in piece.payers) == piece.count
            assert self._live(piece.index, int(piece.first), int(piece.last)) == piece.count

    def _live(self, index: QueueIndex, first: int, last: int) -> int:
        return sum(run.has(at) for run in index.runs for at in range(first, last + 1))
