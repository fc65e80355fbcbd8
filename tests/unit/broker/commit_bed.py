"""A broker whose queues are on a disk driven by hand, and the requests of staged transactions."""

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.simulation.machine.crash import Image
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk, give_store
from penstock.storage.layout.format import MARKS_QUEUE_ID
from penstock.storage.recovery.recovery import recover
from tests.unit.broker.peer import Bed, Peer, SeededChance, publish

PERSISTENT = (0x1000, b"\x02")
SEGMENT_BYTES = 4096


class CommitBed(Bed):
    """Durable queues keep their messages on `files`, which wait for `write`. names: of the durable
    queues on the disk, in the order of their declaration."""

    names: tuple[str, ...] = ("a", "b")
    segment_bytes = SEGMENT_BYTES

    def __init__(self, has_disk: bool = True) -> None:
        super().__init__()
        self.disk = HandDisk()
        self.files = SimDisk()
        if has_disk:
            self.store = give_store(self.broker, self.disk, self.files, self.segment_bytes)
        self.admin = self.connect("admin")
        self.prepare()

    def prepare(self) -> None:
        for name in self.names:
            self.declare(name)

    def declare(self, name: str, arguments: Table | None = None) -> None:
        declare = m.QueueDeclare(name, durable=True, arguments=arguments or {})
        self.admin.call(1, declare, m.QueueDeclareOk)

    def write(self) -> None:
        """The disk does everything there is."""
        self.run()
        while self.disk.work():
            self.run()

    def ready(self, name: str) -> list[bytes]:
        return [message.body() for message in self.actor(name).messages.ready_messages()]

    def commit(self, *identities: str, batch: int = 0, app: str = "q") -> Peer:
        """A driver that has asked for a commit."""
        driver = self.connect(f"driver {self.broker.connection_count}")
        table: Table = {"app": app, "batch": batch, "ids": list(identities)}
        driver.say(1, m.RequestAsk("transaction.commit", table))
        return driver

    def found(self, image: Image | None = None) -> dict[str, list[bytes]]:
        """What a start would find on the disk, by queue; the marks are under ""."""
        ids = dict(enumerate(self.names, 1)) | {MARKS_QUEUE_ID: ""}
        contents = self.files.contents() if image is None else image
        recovered = recover(SimDisk(contents), SeededChance(2), self.segment_bytes, set(ids))
        rows: dict[str, list[bytes]] = {}
        for queue_id, name in ids.items():
            job = recovered.log.plan_reads(recovered.queues[queue_id], 0, 10_000, 1 << 30)
            job.run()
            assert not job.damaged
            rows[name] = [one.message.body() for one in job.found]
        return rows


def ask(peer: Peer, verb: str, **arguments: object) -> Table:
    """A request of transactions and its answer."""
    question = m.RequestAsk(f"transaction.{verb}", arguments)  # type: ignore[arg-type]  # values are AMQP's
    return peer.call(1, question, m.RequestAskOk).answer


def refusal(peer: Peer, verb: str, **arguments: object) -> tuple[int, str]:
    """A request that closes its channel: code and text."""
    question = m.RequestAsk(f"transaction.{verb}", arguments)  # type: ignore[arg-type]  # as above
    peer.say(1, question)
    return closed(peer)


def closed(peer: Peer) -> tuple[int, str]:
    (close,) = [one.method for one in peer.heard() if isinstance(one.method, m.ChannelClose)]
    return close.reply_code, close.reply_text


def answer(peer: Peer) -> Table:
    """Of the request that a commit was."""
    return peer.one(m.RequestAskOk).answer


def stage(bed: Bed, *keyed: tuple[str, bytes], batch: int = 0, app: str = "q") -> str:
    """A task: stages messages, and goes; the identity of its transaction."""
    peer = bed.connect(f"task{bed.broker.connection_count}")
    identity = ask(peer, "begin", app=app, batch=batch, max_bytes=100_000)["id"]
    peer.send(*(publish(1, "", key, body, PERSISTENT) for key, body in keyed))
    assert ask(peer, "stage", id=identity)["messages"] == len(keyed)
    peer.hang_up()
    assert isinstance(identity, str)
    return identity
