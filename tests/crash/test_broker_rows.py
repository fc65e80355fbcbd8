"""Rows of the failure list that are the broker's: the real actors, a disk whose jobs wait for the
test, and a client that writes down what was confirmed to it."""

import pytest

from penstock.broker.admin.alarm_watch import AlarmWatch, MachineProbe
from penstock.broker.store.group_commit import BATCH_BYTES
from penstock.client.events import ClientEvent, Confirmed
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SYNC
from penstock.storage.layout.index import QueueIndex
from penstock.storage.log.log import MessageLog
from tests.crash.rig import recovered_from
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import PERSISTENT, TRANSIENT, Depot

MB = 1_000_000
SEGMENT_BYTES = 4096


class Confirming(Hand):
    """confirmed: the numbers of publishes that the broker has accepted, 1.. ; multiple_count: how
    many confirms covered more than one."""

    def __init__(self) -> None:
        super().__init__()
        self.confirmed: set[int] = set()
        self.multiple_count = 0

    def happened(self, event: ClientEvent) -> None:
        super().happened(event)
        if isinstance(event, Confirmed):
            assert event.is_accepted
            self.confirmed.update(event.sequences)
            self.multiple_count += len(event.sequences) > 1


def confirming(depot: Depot) -> Confirming:
    hand = Confirming()
    depot.world.connect(hand)
    depot.settle()
    hand.say(m.ConfirmSelect())
    depot.settle()
    return hand


def rest(depot: Depot) -> None:
    """What is due now happens."""
    while depot.world.timers.is_due():
        depot.world.timers.run_next()
    depot.settle()


@pytest.mark.parametrize("seed", range(12))
def test_f02_no_confirm_covers_what_is_not_synced(seed: int) -> None:
    """Messages for durable and other queues, persistent or not, on a disk that takes its time: at
    every confirm, whether for one or for many, all that it covers would survive a loss of power."""
    dice = Dice(seed)
    depot = Depot(PENSTOCK, SEGMENT_BYTES)
    hand = confirming(depot)
    must_survive: dict[int, list[tuple[str, bytes]]] = {}
    said = looked = 0
    replay = Replay(depot.files)
    for _ in range(60):
        if dice.happens(60):
            for _ in range(dice.between(1, 12)):
                said += 1
                key = dice.one_of(("q1", "d1", "d2", "all"))
                is_kept = dice.happens(70)
                text = b"%d:" % said + b"x" * dice.below(400)
                hand.client.session.publish(
                    hand.channel, "amq.fanout" if key == "all" else "",
                    "" if key == "all" else key, text, PERSISTENT if is_kept else TRANSIENT,
                )  # fmt: skip
                queues = ("d1", "d2", "d3") if key == "all" else (key,)
                must_survive[said] = [(name, text) for name in queues if is_kept and name != "q1"]
            hand.client.flush()
        elif depot.disk.jobs:
            depot.disk.work()
        depot.settle()
        if len(hand.confirmed) == looked:
            continue
        looked = len(hand.confirmed)
        while replay.step():
            pass
        found = surviving(depot, replay)
        for number in hand.confirmed:
            for entry in must_survive[number]:
                assert entry in found, f"publish {number} was confirmed and would be lost"
    assert looked > 20 and hand.multiple_count > 0


def surviving(depot: Depot, replay: Replay) -> set[tuple[str, bytes]]:
    """(queue, body) of everything that would be there after a loss of power."""
    ids = {int(depot.queue(name).queue_id): name for name in ("d1", "d2", "d3")}
    recovered = recovered_from(replay.certain(), set(ids), SEGMENT_BYTES)
    found: set[tuple[str, bytes]] = set()
    for queue_id, name in ids.items():
        found |= {(name, body) for body in bodies(recovered.log, recovered.queues[queue_id])}
    return found


def bodies(log: MessageLog, index: QueueIndex) -> list[bytes]:
    job = log.plan_reads(index, 1, 100_000, 1 << 30)
    job.run()
    return [found.message.body() for found in job.found]


class OneDisk(MachineProbe):
    """A machine whose disk is the simulated one; lowest: the least that was ever free."""

    def __init__(self, depot: Depot) -> None:
        self.disk_dir = "/data"
        self.depot = depot

    def memory_total_bytes(self) -> int:
        return 1 << 40

    def memory_used_bytes(self) -> int:
        return 0

    def group_bytes(self) -> tuple[int, int]:
        return 0, 0

    def disk_free_bytes(self) -> int:
        return self.depot.files.room


def test_f18_the_disk_alarm_comes_before_the_disk_is_full() -> None:
    """Nobody looks at the disk by the clock, however fast it fills: the stores count what they
    write. After the alarm no more than what was under way is written, and some room is left."""
    depot = Depot(PENSTOCK, 1 << 20)
    depot.files.room = 100 * MB
    watch = AlarmWatch(depot.broker, OneDisk(depot))
    watch.set_disk_free_min("60MB")
    hands = [confirming(depot) for _ in range(4)]
    at_alarm = -1
    body = b"x" * 100_000
    for _ in range(60):
        for number, hand in enumerate(hands):
            while hand.client.session.unconfirmed(hand.channel) < 100:
                hand.client.session.publish(
                    hand.channel, "", f"d{number % 3 + 1}", body, PERSISTENT
                )
            hand.client.flush()
        depot.settle()
        depot.disk.work()
        rest(depot)
        if at_alarm < 0 and "alarm:disk" in depot.broker.alarms:
            at_alarm = depot.files.room
    depot.write()
    rest(depot)
    assert 60 * MB - 3 * BATCH_BYTES < at_alarm < 60 * MB, "set when the mark was passed"
    written = at_alarm - depot.files.room
    window = PENSTOCK.queue_store.bytes_initial
    assert written < 3 * window + (1 << 20), f"{written} bytes were written after the alarm"
    assert depot.files.room > 0
    assert all(hand.client.session.unconfirmed(hand.channel) > 0 for hand in hands), "all are held"


def test_f20_slow_syncs_make_larger_batches() -> None:
    """Every sync takes 200 ms: what comes meanwhile shares the next one, confirms go on, and no
    more waits than the windows let in."""
    depot = Depot(PENSTOCK)
    hand = confirming(depot)
    sizes: list[int] = []
    for _ in range(50):
        depot.send(hand, "d1", 1000, 40)
        depot.world.clock.jump(depot.world.clock.now_ns + 200_000_000)
        before = len(hand.confirmed)
        depot.disk.work()
        depot.settle()
        sizes.append(len(hand.confirmed) - before)
    assert sizes[0] == 1 and min(sizes[2:]) >= 40, "the first goes alone, then all that came"
    waiting = sum(len(request.messages) for request in depot.store.requests())
    assert waiting <= 2 * 40


def test_f21_never_more_than_two_batches() -> None:
    """The disk does nothing while much more comes than a batch takes: one batch is under way, one
    is filled, the rest waits in front of the store. Then each batch is one sync."""
    depot = Depot(PENSTOCK, 1 << 30)
    hands = [depot.connect()[0] for _ in range(5)]
    before = len(depot.files.ops)
    for _ in range(6):
        for number, hand in enumerate(hands):
            depot.send(hand, f"d{number % 3 + 1}", 100_000, 10)
        assert len(depot.disk.jobs) == 1, "one batch is under way"
        assert depot.store.log.open_size < BATCH_BYTES + 110_000
    queued = sum(int(lane.in_flight) for lane in depot.store.lanes)
    assert queued > 2 * BATCH_BYTES // 100_000, "more waits than two batches"
    batches = 0
    while depot.disk.jobs:
        assert len(depot.disk.jobs) == 1
        batches += depot.disk.work()
        depot.settle()
    syncs = sum(op.kind == SYNC for op in depot.files.ops[before:])
    assert syncs <= batches <= 300 * 100_000 // BATCH_BYTES + 5
