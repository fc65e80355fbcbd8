"""A broker that keeps messages and topology in a real directory, and dies between any two jobs of
its disk: what it has not done by then is not there."""

from pathlib import Path

from penstock.protocol import methods as m
from penstock.protocol.values import Table
from penstock.server.disk.data_directory import DataDirectory
from penstock.server.disk.disk_files import FileReclaimer
from penstock.server.disk.store_boot import StoreBoot
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.durable_bed import DurableBed

PERSISTENT = (0x1000, b"\x02")


class LeaseBed(DurableBed):
    """One life. path: the data directory. settings: of Config."""

    def __init__(self, path: Path, **settings: object) -> None:
        self.directory = DataDirectory(path, "boot")
        super().__init__(self.directory.metadata, **settings)
        self.broker.delays.keep_all()
        self.freeing = FileReclaimer()
        self.boot = StoreBoot(self.broker, self.directory, self.disk, self.freeing)
        self.boot.open()

    def work(self, jobs: int = -1) -> None:
        """Run the broker and up to `jobs` jobs of the disk, -1 until nothing is left to do."""
        self.run()
        while self.disk.jobs and jobs != 0:
            self.disk.work(1)
            self.pass_time()
            jobs -= 1

    def pass_time(self, ms: int = 6) -> None:
        """Let `ms` pass, and what is due then happen."""
        self.clock.advance(ms * 1_000_000)
        self.broker.dues.fire(self.clock.monotonic_ns())
        self.run()

    def die(self) -> None:
        """The process is killed: no job is run any more."""
        self.disk.jobs.clear()
        for store in self.broker.stores.stores.values():
            store.log.handles.close()
        self.freeing.close()
        self.database.close()
        self.directory.close()

    def end(self) -> None:
        """A clean stop."""
        self.catalogue.hand_over()
        self.work()
        self.boot.close()
        self.die()

    def publish(
        self, peer: Peer, *bodies: bytes, properties: tuple[int, bytes] = PERSISTENT
    ) -> None:
        """To queue q, and until the disk has them."""
        peer.send(*(publish(1, "", "q", body, properties) for body in bodies))
        self.work()

    def ready(self) -> int:
        """Messages of queue q that anybody may have."""
        return int(self.broker.vhosts["/"].queues["q"].messages.ready_count())


def spark(bed: LeaseBed, name: str = "spark") -> Peer:
    """Somebody with two channels, and the durable queue q."""
    peer = bed.connect(name, channels=2)
    peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    return peer


def ask(peer: Peer, start: int, count: int, **more: int | str | bool) -> None:
    """lease.acquire of group g, which is not waited for."""
    table: Table = {"queue": "q", "group": "g", "start": start, "max_messages": count, **more}
    peer.say(1, m.RequestAsk("lease.acquire", table))


def answer(peer: Peer) -> Table | None:
    """What was answered to `ask`, None if nothing was heard yet."""
    found = peer.heard()
    if not found:
        return None
    (one,) = found
    assert isinstance(one.method, m.RequestAskOk), one.method
    return one.method.answer


def acquire(bed: LeaseBed, peer: Peer, start: int, count: int, **more: int | str | bool) -> Table:
    """lease.acquire, waited for."""
    ask(peer, start, count, **more)
    bed.work()
    found = answer(peer)
    assert found is not None
    return found


def read(peer: Peer, first: int, stop: int) -> list[bytes] | None:
    """The bodies of a range, None if it is not all there (LEASE_LOST, or no such group)."""
    table: Table = {"x-lease-group": "g", "x-lease-from": first, "x-lease-to": stop}
    peer.say(2, m.BasicConsume("q", "r", False, True, False, False, table))
    found = peer.heard()
    if isinstance(found[0].method, m.ChannelClose):
        peer.say(2, m.ChannelCloseOk())
        peer.call(2, m.ChannelOpen(), m.ChannelOpenOk)
        return None
    assert isinstance(found[0].method, m.BasicConsumeOk)
    peer.call(2, m.BasicCancel("r"), m.BasicCancelOk)
    return [one.body for one in found[1:]]
