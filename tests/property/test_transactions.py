"""Staged transactions in any order, with crashes in between: a batch is there whole, and once.

what is in the queues  =  all rows of the batches up to the app's last one, and nothing else
the app's last batch  >=  the highest that was answered
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.broker.node.store_registry import bring_back
from penstock.broker.store.app_marks import AppMarks
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, Numbers
from penstock.storage.layout.format import MARKS_QUEUE_ID
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.commit_bed import PERSISTENT, ask
from tests.unit.broker.peer import Bed, SeededChance, publish

QUEUES = ("a", "b")
SEGMENT_BYTES = 1500
APP = "app"


class Life(Bed):
    """One life of a broker with the durable queues a and b, on what the one before has left.
    number: of the life, because no two may draw the same identities for their segments."""

    def __init__(self, image: Image, number: int) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk(image)
        recovered = recover(
            self.files, SeededChance(100 + number), SEGMENT_BYTES, {1, 2, MARKS_QUEUE_ID}
        )
        assert not recovered.report.lost
        self.broker.keep(Numbers())
        self.store = self.broker.stores.open("/", recovered.log, self.disk)
        self.broker.transactions.restore("/", self.store)
        self.admin = self.connect("admin")
        page = self.broker.ledger.page_of_vhost("/")
        for name in QUEUES:
            self.admin.call(1, m.QueueDeclare(name, durable=True), m.QueueDeclareOk)
            actor = self.broker.vhosts["/"].queues[name]
            job = recovered.log.plan_reads(recovered.queues[actor.queue_id], 0, 10_000, 1 << 30)
            job.run()
            assert not job.damaged
            for found in job.found:
                bring_back(actor, page, found.message, True, 0)

    def write(self, count: int) -> None:
        """The disk does up to so many jobs."""
        self.run()
        for _ in range(count):
            self.disk.work()
            self.run()

    def marks(self) -> AppMarks:
        return self.broker.transactions.marks_of("/")

    def last(self) -> int:
        mark = self.marks().last.get(APP)
        return -1 if mark is None else mark.batch

    def rows(self) -> list[bytes]:
        found: list[bytes] = []
        for name in QUEUES:
            messages = self.broker.vhosts["/"].queues[name].messages.ready_messages()
            found += [message.body() for message in messages]
        return sorted(found)

    def stage(self, batch: int, task: int) -> str:
        peer = self.connect(f"task{self.broker.connection_count}")
        identity = ask(peer, "begin", app=APP, batch=batch, max_bytes=10_000)["id"]
        for name in QUEUES:
            peer.send(publish(1, "", name, row(batch, task, name), PERSISTENT))
        ask(peer, "stage", id=identity)
        peer.hang_up()
        assert isinstance(identity, str)
        return identity

    def crash(self, has_power: bool, seed: int) -> Image:
        """What a kill, or a loss of power, leaves."""
        if has_power:
            return self.files.contents()
        replay = Replay(self.files)
        while replay.step():
            pass
        images = list(replay.states(Dice(seed), 3))
        return images[seed % len(images)]


def row(batch: int, task: int, queue: str) -> bytes:
    return b"%d.%d.%s" % (batch, task, queue.encode()) + b"x" * (97 * task)


def all_rows(last: int, tasks: dict[int, int]) -> list[bytes]:
    return sorted(
        row(batch, task, name)
        for batch in range(last + 1)
        for task in range(tasks[batch])
        for name in QUEUES
    )


step = st.tuples(
    st.sampled_from(["commit", "commit", "again", "crash", "power", "rollback"]),
    st.integers(0, 4),
    st.integers(0, 1000),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(step, max_size=7))
def test_a_batch_is_there_whole_and_once(steps: list[tuple[str, int, int]]) -> None:
    life = Life({}, 0)
    lives = 1
    answered = -1
    tasks: dict[int, int] = {}
    for kind, number, seed in steps:
        batch = life.last() + 1
        if kind == "again":
            batch = max(0, batch - 1)
        count = tasks.setdefault(batch, 1 + number % 3)
        ids = [life.stage(batch, task) for task in range(count)]
        if kind == "rollback":
            ask(life.connect("driver"), "rollback", app=APP, batch=batch)
            continue
        driver = life.connect("driver")
        given: Table = {"app": APP, "batch": batch, "ids": list(ids)}
        driver.say(1, m.RequestAsk("transaction.commit", given))
        life.write(number if kind in ("crash", "power") else 20)
        if any(isinstance(one.method, m.RequestAskOk) for one in driver.heard()):
            answered = max(answered, batch)
            assert life.last() >= batch
        if kind in ("crash", "power"):
            life = Life(life.crash(kind == "crash", seed), lives)
            lives += 1
        assert life.last() >= answered
        assert life.rows() == all_rows(life.last(), tasks)
        if kind not in ("crash", "power"):
            life.settle()
