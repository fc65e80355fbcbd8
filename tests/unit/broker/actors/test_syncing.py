"""When a store syncs: what each mode confirms, when, and what a kill or a loss of power takes."""

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.actors.syncing import ALWAYS, INTERVAL, MODES, NONE, SyncRule
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.simulation.machine.crash import Image, Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SYNC, SYNC_DIRECTORY, SimDisk
from penstock.storage.recovery.recovery import recover
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import Depot
from tests.unit.storage.making import positions, read

MS_NS = 1_000_000


class Synced(Depot):
    """A depot whose store follows `mode`, and a publisher that wants confirms."""

    def __init__(self, mode: str, segment_bytes: int = 1 << 20) -> None:
        super().__init__(PENSTOCK, segment_bytes)
        self.store.follow(SyncRule(mode, 200))
        self.hand: Hand = self.connect()[0]
        self.hand.say(m.ConfirmSelect())
        self.settle()
        self.sent = 0

    def publish(self, count: int = 1) -> None:
        self.sent += count
        self.send(self.hand, "d1", 100, count)

    def confirmed(self) -> int:
        return self.sent - self.hand.client.session.unconfirmed(self.hand.channel)

    def pass_ms(self, ms: int) -> None:
        """So much time, what falls due in it done, and the disk with it."""
        self.world.clock.jump(self.world.clock.now_ns + ms * MS_NS)
        while self.world.timers.is_due():
            self.world.timers.run_next()
        self.settle()
        self.write()

    def syncs(self) -> int:
        return sum(op.kind in (SYNC, SYNC_DIRECTORY) for op in self.files.ops)

    def after_power_loss(self) -> Image:
        """What is safe, and nothing else."""
        replay = Replay(self.files)
        while replay.step():
            pass
        return next(iter(replay.states(Dice(1), 0)))


def found(image: Image, trusts_footers: bool = True) -> int:
    """How many messages come back, which have to be the first ones."""
    recovered = recover(SimDisk(image), Dice(2), 4096, {1}, trusts_footers)
    assert not recovered.report.lost
    job = read(recovered.log, recovered.queues[1], count=10_000)
    assert not job.damaged
    assert positions(job) == list(range(1, len(job.found) + 1))
    return len(job.found)


def test_always_confirms_after_the_sync() -> None:
    depot = Synced(ALWAYS)
    depot.publish()
    assert (depot.confirmed(), depot.syncs()) == (0, 0)
    depot.write()
    assert depot.confirmed() == 1
    assert found(depot.after_power_loss()) == 1


def test_interval_confirms_after_the_write_and_syncs_in_time() -> None:
    depot = Synced(INTERVAL)
    depot.publish()
    assert depot.confirmed() == 0
    depot.write()
    assert (depot.confirmed(), depot.syncs()) == (1, 0)
    depot.pass_ms(199)
    assert depot.syncs() == 0
    depot.pass_ms(1)
    assert depot.syncs() == 2, "the file and the directory, in which it is new"
    depot.pass_ms(5000)
    assert depot.syncs() == 2, "there is nothing more to sync"
    depot.publish()
    depot.write()
    depot.pass_ms(200)
    assert depot.syncs() == 3


def test_interval_loses_at_most_that_to_a_loss_of_power_and_nothing_to_a_kill() -> None:
    depot = Synced(INTERVAL, segment_bytes=4096)
    confirmed: list[int] = []
    for _ in range(60):
        depot.publish(3)
        depot.write()
        confirmed.append(depot.confirmed())
        assert found(depot.files.contents()) == depot.sent == depot.confirmed()
        back = found(depot.after_power_loss())
        assert back >= (confirmed[-5] if len(confirmed) > 4 else 0), "50 ms each"
        depot.pass_ms(50)


def test_none_syncs_at_the_stop_only_and_then_everything() -> None:
    """More segments than files may be open, so that some were closed before."""
    depot = Synced(NONE, segment_bytes=1024)
    for _ in range(50):
        depot.publish(20)
        depot.write()
        depot.pass_ms(1000)
    assert depot.confirmed() == depot.sent
    assert depot.syncs() == 0
    assert len(depot.files.names()) > 64
    assert len(depot.store.log.handles.files) <= 64
    assert found(depot.files.contents()) == depot.sent, "a kill takes nothing"
    assert depot.after_power_loss() == {}
    depot.store.last_batch().run()
    assert found(depot.after_power_loss()) == depot.sent


def test_none_after_a_loss_of_power_believes_nothing_it_has_not_read() -> None:
    """Footers may be there and the records in front of them not: nothing wrong comes back, and no
    queue is called damaged for what was never safe."""
    depot = Synced(NONE, segment_bytes=1024)
    depot.publish(12)
    depot.write()
    depot.publish(12)
    depot.write()
    replay = Replay(depot.files)
    while replay.step():
        pass
    seen = 0
    for image in replay.states(Dice(3), 300):
        recovered = recover(SimDisk(image), Dice(2), 4096, {1}, trusts_footers=False)
        job = read(recovered.log, recovered.queues[1])
        assert not recovered.report.lost and not job.damaged
        assert all(one.message.body() == b"x" * 100 for one in job.found)
        seen = max(seen, len(job.found))
    assert seen == 24


def test_none_still_copies_safely_before_a_file_goes() -> None:
    depot = Synced(NONE, segment_bytes=4096)
    for _ in range(10):
        depot.publish(9)
        depot.send(depot.hand, "d2", 100)
        depot.sent += 1
        depot.write()
    depot.hand.say(m.QueuePurge("d1"))
    depot.settle()
    for _ in range(20):
        depot.pass_ms(500)
    assert depot.syncs() > 0
    recovered = recover(SimDisk(depot.after_power_loss()), Dice(2), 4096, {1, 2}, False)
    assert positions(read(recovered.log, recovered.queues[2])) == list(range(1, 11))


def test_a_mode_that_there_is_not() -> None:
    with pytest.raises(OperatorError, match="store_sync = 'often' is unknown; one of: always"):
        SyncRule("often", 200)
    for mode in MODES:
        assert SyncRule(mode, 200).words().startswith(f"{mode}: ")
