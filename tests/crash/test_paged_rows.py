"""Rows of the failure list for messages that were paged: most of a queue is on the disk only, is
read back while more comes, and the power goes meanwhile."""

import contextlib
import time
from pathlib import Path

import pytest

from penstock.client.errors import ClientError
from penstock.client.events import ClientEvent, Delivery
from penstock.client.io_blocking import connect
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.simulation.machine.crash import Replay
from penstock.simulation.machine.dice import Dice
from penstock.storage.layout.format import log_name
from tests.crash.live import Lost, Publisher, served
from tests.crash.rig import recovered_from
from tests.crash.test_broker_rows import Confirming, bodies, confirming
from tests.crash.test_kill import body as large_body
from tests.crash.test_kill import check_back
from tests.patience import PATIENCE_S
from tests.spec.test_store_scenarios import PERSISTENT, Depot

SEGMENT_BYTES = 8192
TARGET_BYTES = 12_000


class Taker(Confirming):
    """Acknowledges what comes. taken: the bodies, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: list[bytes] = []

    def happened(self, event: ClientEvent) -> None:
        super().happened(event)
        if isinstance(event, Delivery):
            self.taken.append(event.body)
            self.client.session.ack(self.channel, event.delivery_tag)


class Ledger:
    """What the client knew after so many operations of the disk."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, int, set[int], int]] = []

    def note(self, depot: Depot, hand: Confirming, said: int, taken: int) -> None:
        self.lines.append((len(depot.files.ops), said, set(hand.confirmed), taken))


def body(number: int) -> bytes:
    return b"%05d:" % number + b"y" * (number * 37 % 500)


def paged_depot() -> Depot:
    """Whose queue d1 keeps no more than TARGET_BYTES in memory."""
    depot = Depot(PENSTOCK, SEGMENT_BYTES)
    depot.queue("d1").page_above = TARGET_BYTES
    return depot


def taker(depot: Depot, prefetch: int) -> Taker:
    hand = Taker()
    depot.world.connect(hand)
    depot.settle()
    hand.say(m.BasicQos(0, prefetch, False))
    hand.say(m.BasicConsume("d1"))
    depot.settle()
    return hand


def publish(depot: Depot, hand: Confirming, numbers: range) -> None:
    for number in numbers:
        hand.client.session.publish(hand.channel, "", "d1", body(number), PERSISTENT)
    hand.client.flush()
    depot.settle()


def test_f01_f02_crashes_while_messages_are_paged_out_and_read_back() -> None:
    """In every state a crash can leave: everything confirmed and not taken is there, in order and
    unaltered, wherever it was in memory."""
    depot = paged_depot()
    hand = confirming(depot)
    dice = Dice(4)
    ledger = Ledger()
    said = paged = 0
    reader: Taker | None = None
    for turn in range(40):
        count = dice.between(1, 9)
        publish(depot, hand, range(said, said + count))
        said += count
        ledger.note(depot, hand, said, 0 if reader is None else len(reader.taken))
        if turn == 18:
            reader = taker(depot, 5)
            ledger.note(depot, hand, said, len(reader.taken))
        for _ in range(dice.below(4)):
            depot.disk.work()
            depot.settle()
            ledger.note(depot, hand, said, 0 if reader is None else len(reader.taken))
        if depot.queue("d1").messages.is_paging:
            paged += 1
        assert depot.queue("d1").messages.bytes_ready < 4 * TARGET_BYTES
    assert paged > 15 and reader is not None
    while depot.disk.work():
        depot.settle()
        ledger.note(depot, hand, said, len(reader.taken))
    assert reader.taken == [body(number) for number in range(said)], "all came, in order"
    check_ledger(depot, ledger)


def check_ledger(depot: Depot, ledger: Ledger) -> None:
    queue_id = int(depot.queue("d1").queue_id)
    replay = Replay(depot.files)
    waiting = list(reversed(ledger.lines))
    said, confirmed, taken, count = 0, set[int](), 0, 0
    while True:
        while waiting and waiting[-1][0] <= replay.at:
            _, said, confirmed, taken = waiting.pop()
        # What is on its way when the operation is done is known to the client soon after it.
        said_soon = waiting[-1][1] if waiting else said
        for number, image in enumerate(replay.states(Dice(replay.at), 1)):
            if number >= 6:
                break
            count += 1
            recovered = recovered_from(image, {queue_id}, SEGMENT_BYTES)
            assert not recovered.report.lost
            found = bodies(recovered.log, recovered.queues[queue_id])
            numbers = [int(one[:5]) for one in found]
            assert numbers == sorted(set(numbers)), "out of order, or twice"
            assert found == [body(number) for number in numbers], "altered"
            assert all(number < said_soon for number in numbers)
            missing = {one - 1 for one in confirmed} - set(numbers) - set(range(taken))
            assert not missing, (
                f"after {replay.at}, state {number}: {sorted(missing)} lost; {taken}"
            )
        if not replay.step():
            break
    assert count > 300


@pytest.mark.parametrize("share", [3, 10])
def test_f11_f14_a_bit_that_flips_in_a_paged_message(share: int) -> None:
    """It is not delivered altered, nor passed over: the queue stops as damaged and says how many
    it lost; when somebody resumes it, all the others come, in order."""
    depot = paged_depot()
    hand = confirming(depot)
    publish(depot, hand, range(200))
    depot.write()
    queue = depot.queue("d1")
    assert queue.messages.is_paging
    victim = 200 * share // 12
    flip(depot, victim)
    reader = taker(depot, 10)
    depot.write()
    assert queue.is_paused
    assert queue.damaged_count == 1
    assert reader.taken == [body(number) for number in range(len(reader.taken))]
    assert len(reader.taken) <= victim, "nothing behind the lost one is given for all there was"
    queue.pause(False)
    depot.settle()
    depot.write()
    assert reader.taken == [body(number) for number in range(200) if number != victim]


def flip(depot: Depot, victim: int) -> None:
    """Turn over one bit of a body on the disk."""
    for number in depot.store.log.segments:
        name = log_name(number)
        data = bytes(depot.files.files[name].data)
        at = data.find(body(victim))
        if at >= 0:
            depot.files.flip(name, (at + 2) * 8 + 1)
            return
    raise AssertionError("its body is on the disk")


def test_f01_f06_kill_9_with_a_queue_that_is_paged(tmp_path: Path) -> None:
    """Three lives of a real broker whose queue may hold 300 kB in memory and has several times
    that; each takes some of it and is killed. What was confirmed and not taken is there."""
    data = tmp_path / "data"
    said = 0
    confirmed: set[int] = set()
    taken: set[int] = set()
    for _ in range(3):
        with served(data, tmp_path, settings="queue_depth_bytes = 600000\n") as broker:
            publisher = Publisher(broker)
            publisher.declare("d1")
            first = said
            last = -1
            with connect(broker.url) as connection, contextlib.suppress(Lost, ClientError):
                channel = connection.channel()
                for said in range(first + 1, first + 501):
                    publisher.publish("", "d1", large_body(said - 1))
                    if said % 5 == 0:
                        # What another connection has sent before may still be on its way.
                        end_s = time.monotonic() + PATIENCE_S
                        while (got := channel.get("d1")) is None:
                            assert time.monotonic() < end_s, f"nothing came of {said} publishes"
                        number = int(got.body[:8])
                        # What was acknowledged just before a kill may come again.
                        assert number > last, "out of order"
                        assert got.body == large_body(number)
                        last = number
                        taken.add(number)
                        channel.ack(got)
                broker.kill()
                publisher.finish()
            publisher.close()
        confirmed |= {first + number for number in publisher.confirmed}
    with served(data, tmp_path) as broker:
        check_back(broker, "d1", range(said), confirmed - taken)
    assert len(taken) > 200 and len(confirmed) > 1000
