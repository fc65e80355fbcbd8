"""Commits into a stream and a queue beside plain publishes, with crashes at any job of the disk.

the stream  =  for each batch up to the app's last one its rows, whole, once, in order, together;
               plain rows in their order, once, those that were confirmed all of them
the queue   =  the rows of the same batches
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.node.store_registry import bring_back
from penstock.broker.store.store_actor import FLUSH_NS
from penstock.broker.stream.stream_actor import StreamActor
from penstock.broker.transaction.outbox_restore import restore_outbox
from penstock.broker.transaction.transaction_manager import RETRY_NS
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, Numbers
from penstock.storage.layout.format import MARKS_QUEUE_ID, OUTBOX_QUEUE_ID
from penstock.storage.recovery.recovery import recover
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention
from penstock.streams.recovery import recover_streams
from tests.unit.broker.commit_bed import PERSISTENT, ask
from tests.unit.broker.peer import Bed, Peer, SeededChance, publish

SEGMENT_BYTES = 1500
APP = "app"
ROWS = 3
"""Of a batch, in the stream; the queue gets one."""


class Life(Bed):
    """One life of a broker with the stream s and the queue a. number: of the life."""

    def __init__(self, images: tuple[Image, Image], number: int) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files, self.stream_files = SimDisk(images[0]), SimDisk(images[1])
        chance = SeededChance(100 + number)
        recovered = recover(
            self.files, chance, SEGMENT_BYTES, {1, MARKS_QUEUE_ID, OUTBOX_QUEUE_ID + 2}
        )
        assert not recovered.report.lost
        self.broker.keep(Numbers())
        store = self.broker.stores.open("/", recovered.log, self.disk)
        self.broker.transactions.restore("/", store)
        logs, report = recover_streams(self.stream_files, chance, {2: Retention(SEGMENT_BYTES)})
        assert not report.lost, report.lost
        self.admin = self.connect("admin")
        self.admin.call(1, m.QueueDeclare("a", durable=True), m.QueueDeclareOk)
        page = self.broker.ledger.page_of_vhost("/")
        queue = self.broker.vhosts["/"].queues["a"]
        job = recovered.log.plan_reads(recovered.queues[1], 0, 10_000, 1 << 30)
        job.run()
        for found in job.found:
            bring_back(queue, page, found.message, True, 0)
        table: Table = {"x-queue-type": "stream"}
        self.admin.call(1, m.QueueDeclare("s", durable=True, arguments=table), m.QueueDeclareOk)
        streams = self.broker.streams.open("/", StreamHandles(self.stream_files), self.disk)
        stream = self.broker.vhosts["/"].queues["s"]
        assert isinstance(stream, StreamActor) and stream.queue_id == 2
        stream.keep_in(streams, logs[2], False)
        restore_outbox(stream, store, page, self.log)
        self.stream = stream
        self.writer = self.connect("writer")
        self.writer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
        self.sent: list[bytes] = []

    def write(self, count: int) -> None:
        """The disk does up to so many jobs; what is due meanwhile happens."""
        self.run()
        for _ in range(count):
            if not self.disk.work():
                if not self.broker.transactions.under_way:
                    break
                self.clock.advance(RETRY_NS)
                self.broker.dues.fire(self.clock.monotonic_ns())
            self.run()

    def later(self, count: int) -> None:
        """A moment in which the log writes down what streams have by now; so many jobs."""
        self.clock.advance(FLUSH_NS)
        self.broker.dues.fire(self.clock.monotonic_ns())
        self.write(count)

    def say(self, body: bytes) -> None:
        """A plain publish."""
        self.writer.send(publish(1, "", "s", body))
        self.sent.append(body)

    def confirmed(self) -> list[bytes]:
        """Of those of `say`."""
        tags: set[int] = set()
        for one in self.writer.heard():
            if isinstance(one.method, m.BasicAck):
                top = one.method.delivery_tag
                tags |= set(range(1, top + 1)) if one.method.multiple else {top}
        return [body for number, body in enumerate(self.sent, 1) if number in tags]

    def stage(self, batch: int) -> str:
        peer = self.connect(f"task{self.broker.connection_count}")
        identity = ask(peer, "begin", app=APP, batch=batch, max_bytes=10_000)["id"]
        for number in range(ROWS):
            peer.send(publish(1, "", "s", b"c%d.%d" % (batch, number), PERSISTENT))
        peer.send(publish(1, "", "a", b"q%d" % batch, PERSISTENT))
        ask(peer, "stage", id=identity)
        peer.hang_up()
        assert isinstance(identity, str)
        return identity

    def last(self) -> int:
        mark = self.broker.transactions.marks_of("/").last.get(APP)
        return -1 if mark is None else mark.batch

    def rows(self) -> list[bytes]:
        """Everything in the stream."""
        self.write(100)
        reader = self.connect(f"reader{self.broker.connection_count}")
        reader.call(1, m.BasicQos(0, 10_000, False), m.BasicQosOk)
        reader.say(1, m.BasicConsume("s", "t", arguments={"x-stream-offset": "first"}))
        found: list[bytes] = []
        is_reading = True
        while is_reading:
            self.run()
            heard = [one.body for one in reader.heard() if isinstance(one.method, m.BasicDeliver)]
            found += heard
            is_reading = len(heard) > 0 or self.disk.work() > 0
        reader.hang_up()
        self.run()
        return found

    def crash(self, has_power: bool, seed: int) -> tuple[Image, Image]:
        """What a kill, or a loss of power, leaves."""
        if has_power:
            return self.files.contents(), self.stream_files.contents()
        return left_of(self.files, seed), left_of(self.stream_files, seed // 3)


def left_of(files: SimDisk, seed: int) -> Image:
    replay = Replay(files)
    while replay.step():
        pass
    images = list(replay.states(Dice(seed), 3))
    return images[seed % len(images)]


def commit(life: Life, batch: int) -> Peer:
    driver = life.connect(f"driver{life.broker.connection_count}")
    table: Table = {"app": APP, "batch": batch, "ids": [life.stage(batch)]}
    driver.say(1, m.RequestAsk("transaction.commit", table))
    return driver


def check(life: Life, confirmed: list[bytes], sent: list[bytes]) -> None:
    rows = life.rows()
    batches = [row for row in rows if row.startswith(b"c")]
    assert batches == [
        b"c%d.%d" % (batch, number) for batch in range(life.last() + 1) for number in range(ROWS)
    ]
    for batch in range(life.last() + 1):
        at = rows.index(b"c%d.0" % batch)
        assert rows[at : at + ROWS] == [b"c%d.%d" % (batch, n) for n in range(ROWS)]
    plain = [row for row in rows if not row.startswith(b"c")]
    assert plain == [body for body in sent if body in set(plain)], "in order, and once"
    assert set(confirmed) <= set(plain)
    queue = life.broker.vhosts["/"].queues["a"].messages.ready_messages()
    assert [one.body() for one in queue] == [b"q%d" % batch for batch in range(life.last() + 1)]


step = st.tuples(
    st.sampled_from(["commit", "plain", "plain and commit", "later", "crash", "power"]),
    st.integers(0, 6),
    st.integers(0, 1000),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(step, max_size=8))
def test_a_stream_has_every_batch_whole_and_once(steps: list[tuple[str, int, int]]) -> None:
    life = Life(({}, {}), 0)
    lives = 1
    answered = -1
    sent: list[bytes] = []
    confirmed: list[bytes] = []
    for kind, number, seed in steps:
        batch = life.last() + 1
        if kind == "later":
            life.later(number)
            continue
        if kind != "commit":
            for _ in range(1 + number % 3):
                sent.append(b"p%d" % len(sent))
                life.say(sent[-1])
        driver = None if kind == "plain" else commit(life, batch)
        if kind == "plain and commit":
            sent.append(b"p%d" % len(sent))
            life.say(sent[-1])
        life.write(number if kind in ("crash", "power") else 40)
        if driver is not None and any(isinstance(o.method, m.RequestAskOk) for o in driver.heard()):
            answered = max(answered, batch)
        confirmed += life.confirmed()
        if kind in ("crash", "power"):
            life = Life(life.crash(kind == "crash", seed), lives)
            lives += 1
        assert life.last() >= answered
        check(life, confirmed, sent)
        if kind not in ("crash", "power"):
            life.settle()
