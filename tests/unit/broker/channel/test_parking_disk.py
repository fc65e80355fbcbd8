"""Publishes parked on the disk: order, room, faults of the disk, and every way out."""

from errno import EIO, ENOSPC
from random import Random

import pytest

from penstock.broker.channel.parked_line import ParkedLine
from penstock.broker.channel.parking_disk import ParkingDisk
from penstock.broker.channel.parking_lot import ParkingLot
from penstock.broker.store.group_commit import RETRY_NS
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from penstock.protocol.content import Address, Message, make_content
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.durable_disks import HandDisk
from penstock.storage.log.parked import ReadParked, WriteParked, decode, encode, record_bytes
from tests.spec.stage import Hand, Stage, numbered
from tests.unit.broker.channel.test_parking import QUEUES, taken

LOT = 60_000
EVERYTHING = 1 << 30


class DiskStage:
    """A stage whose broker parks on a disk that works when it is told to."""

    def __init__(
        self,
        lot_bytes: int = LOT,
        piece_bytes: int = 6000,
        bytes_max: int = 1 << 20,
        credit: int = 2,
    ) -> None:
        self.stage = Stage(PENSTOCK.with_messages(credit, 1))
        self.broker = self.stage.broker
        self.files = SimDisk()
        self.disk = HandDisk()
        self.broker.park_on(self.files, self.disk)
        self.broker.parking.lot_bytes_max = lot_bytes
        parking = self.broker.parking.disk
        assert parking is not None
        self.parking: ParkingDisk = parking
        parking.piece_bytes = piece_bytes
        parking.write_bytes = 3 * piece_bytes
        parking.bytes_max = bytes_max

    def run(self) -> None:
        """All that the disk and the actors have to do."""
        self.stage.settle()
        while self.disk.work(EVERYTHING):
            self.stage.settle()

    def wait_for_retry(self) -> None:
        """Time passes until the disk is tried again."""
        clock = self.stage.world.clock
        clock.jump(clock.now_ns + 2 * RETRY_NS)
        self.broker.dues.fire(clock.now_ns)
        self.run()

    def lot(self, hand: Hand) -> ParkingLot:
        return self.stage.connection(hand.client).lot

    def line(self, hand: Hand) -> ParkedLine:
        [line] = self.lot(hand).lines.values()
        return line

    def publisher(self, count: int, confirms: bool = False) -> Hand:
        """One that has `count` publishes for q1 waiting, and a second queue."""
        hand = self.stage.connect()[0]
        if confirms:
            hand.say(m.ConfirmSelect())
        hand.publish("q2", 1)
        self.stage.park("queue:/q1")
        hand.publish_bodies("q1", numbered(count))
        self.run()
        return hand

    def let_go(self) -> None:
        self.stage.unpark("queue:/q1")
        self.run()

    def check_empty(self) -> None:
        """Nothing is parked, and nothing is left on the disk."""
        self.run()
        assert (self.parking.bytes, self.files.names(), self.disk.jobs) == (0, [], [])
        assert self.broker.parking.bytes == 0 and not self.broker.parking.rests
        for connection in self.broker.connections.values():
            lot = connection.lot
            assert (lot.bytes, lot.messages, lot.disk_bytes, len(lot.lines)) == (0, 0, 0, 0)
            account = connection.account
            assert (account.parked_messages, account.parked_disk_bytes) == (0, 0)


def test_a_lot_goes_on_to_the_disk_and_comes_back_in_order() -> None:
    bed = DiskStage()
    hand = bed.publisher(1000)
    lot, line = bed.lot(hand), bed.line(hand)
    assert lot.messages == 998 and line.disk_messages > 700, "without a disk 217 have room"
    assert lot.bytes <= LOT and not bed.stage.channel(hand).is_stalled
    assert lot.disk_bytes == bed.parking.bytes == sum(map(len, bed.files.contents().values()))
    hand.publish("q2", 5)
    bed.stage.settle()
    assert bed.stage.ready("q2") == 6
    bed.let_go()
    assert taken(bed.stage, "q1") == numbered(1000)
    bed.check_empty()


@pytest.mark.parametrize("seed", range(24))
def test_every_queue_gets_its_own_in_order_wherever_it_was(seed: int) -> None:
    """Queues stand still and go on, the disk works, is full, or fails for a while, and publishes
    for one queue or for all come in meanwhile."""
    chance = Random(seed)
    bed = DiskStage(chance.choice((20_000, 60_000, 200_000)), chance.choice((1500, 6000, 50_000)))
    stage = bed.stage
    bed.parking.bytes_max = chance.choice((30_000, 100_000, 1 << 20))
    bed.files.room = chance.choice((-1, -1, 30_000))
    bed.files.write_max = chance.choice((0, 100))
    hand = stage.connect()[0]
    has_confirms = chance.random() < 0.5
    if has_confirms:
        hand.say(m.ConfirmSelect())
    sent: dict[str, list[bytes]] = {name: [] for name in QUEUES}
    for number in range(800):
        body = b"%06d" % number + b"x" * chance.choice((0, 50, 900))
        name = chance.choice((*QUEUES, ""))
        hand.client.session.publish(hand.channel, "" if name else "amq.fanout", name, body)
        hand.client.flush()
        for queue in (name,) if name else QUEUES:
            sent[queue].append(body)
        if chance.random() < 0.1:
            queue = "queue:/" + chance.choice(QUEUES)
            (stage.park if chance.random() < 0.7 else stage.unpark)(queue)
        if chance.random() < 0.3:
            stage.settle()
        if chance.random() < 0.2:
            bed.disk.fault = OSError(EIO, "input/output error") if chance.random() < 0.2 else None
        bed.disk.work(chance.randint(0, 2))
    bed.disk.fault = None
    for name in QUEUES:
        stage.unpark("queue:/" + name)
    bed.run()
    while bed.parking.bytes or bed.broker.parking.bytes:
        bed.wait_for_retry()
    assert {name: taken(stage, name) for name in QUEUES} == sent
    assert bed.parking.lost == 0
    bed.check_empty()


@pytest.mark.parametrize("is_done", [True, False], ids=["on the disk", "being written"])
@pytest.mark.parametrize("ending", ["channel", "connection", "cut"])
def test_an_end_leaves_what_is_on_the_disk_to_its_queue(ending: str, is_done: bool) -> None:
    bed = DiskStage()
    stage = bed.stage
    hand = bed.publisher(1000)
    if not is_done:
        hand.publish_bodies("q1", numbered(1010)[1000:])
        stage.settle()
    client = hand.client
    if ending == "channel":
        hand.say(m.ChannelClose(200, "done", 0, 0))
    elif ending == "connection":
        client.is_ending = True
        client.session.close()
        client.flush()
    else:
        bed.broker.lost(stage.connection(client))
    stage.settle()
    assert bed.broker.parking.rests, "and the queue still stands still"
    bed.let_go()
    assert taken(stage, "q1") == numbered(1000 if is_done else 1010)
    bed.check_empty()
    name = client.link.name
    assert name in bed.broker.connections or not any(
        name in page.name for page in bed.broker.node_account.children.values()
    )


def test_a_line_that_was_being_served_when_its_channel_closed_goes_on() -> None:
    bed = DiskStage(credit=16)
    stage = bed.stage
    hand = bed.publisher(1000)
    channel = stage.channel(hand)
    hand.say(m.ChannelClose(200, "done", 0, 0))
    stage.park(channel.identity)
    stage.unpark("queue:/q1")
    bed.run()
    stage.step(channel.identity, 2)
    [line] = channel.parking.lines.values()
    assert channel.is_closed and line.has_front() and not line.lane.is_closed
    stage.unpark(channel.identity)
    bed.run()
    assert taken(stage, "q1") == numbered(1000)
    bed.check_empty()


def test_a_line_that_waited_for_debt_goes_on_when_its_connection_ends() -> None:
    bed = DiskStage(200_000, credit=16)
    stage = bed.stage
    hand, _ = stage.connect(2)
    for name in ("q1", "q2"):
        stage.park("queue:/" + name)
        hand.publish_bodies(name, numbered(2000))
    bed.run()
    connection = stage.connection(hand.client)
    hand.say(m.ChannelClose(200, "done", 0, 0))
    bed.run()
    connection.account.set_limits(1, 0, 0, 0)
    stage.unpark("queue:/q1")
    bed.run()
    line = next(iter(connection.lot.lines.values()))
    # What lies in front of q2 is a debt.
    assert bed.broker.parking.rests and line.is_opened and connection.account.is_stopped()
    bed.broker.lost(connection)
    bed.run()
    assert taken(stage, "q1") == numbered(2000)
    stage.unpark("queue:/q2")
    bed.run()
    assert taken(stage, "q2") == numbered(2000)
    bed.check_empty()


@pytest.mark.parametrize("is_reading", [False, True])
@pytest.mark.parametrize("confirms", [False, True])
def test_a_queue_that_is_deleted_takes_its_own_with_it(confirms: bool, is_reading: bool) -> None:
    bed = DiskStage()
    hand = bed.publisher(1000, confirms)
    if is_reading:
        bed.stage.unpark("queue:/q1")
        while not any(isinstance(job, ReadParked) for job, _ in bed.disk.jobs):
            bed.stage.step("queue:/q1", 1)
            bed.stage.step(bed.stage.channel(hand).identity, 1)
            bed.disk.work(0)
    hand.say(m.QueueDelete("q1"))
    bed.run()
    assert hand.replies[-1] == m.QueueDeleteOk(1000)
    if confirms:
        confirmed = bed.stage.channel(hand).publisher.confirms
        assert confirmed is not None and confirmed.span() == 0
    bed.check_empty()


def test_each_number_is_answered_where_confirms_begin_within_a_line() -> None:
    bed = DiskStage()
    hand = bed.publisher(100)
    hand.say(m.ConfirmSelect())
    hand.publish_bodies("q1", numbered(1000))
    bed.run()
    pieces = bed.line(hand).pieces
    assert any(0 < len(one.sequences()) < one.count for one in pieces), "one has both"
    hand.say(m.QueueDelete("q1"))
    bed.run()
    assert hand.replies[-1] == m.QueueDeleteOk(1100)
    confirms = bed.stage.channel(hand).publisher.confirms
    assert confirms is not None and confirms.span() == 0
    bed.check_empty()


def test_a_queue_that_is_not_empty_because_of_the_disk_is_not_deleted() -> None:
    bed = DiskStage()
    hand = bed.publisher(1000)
    hand.say(m.QueueDelete("q1", if_empty=True))
    bed.run()
    assert "q1" in bed.broker.vhosts["/"].queues
    bed.let_go()
    assert taken(bed.stage, "q1") == numbered(1000), "the 406 has closed the channel"
    bed.check_empty()


def test_a_transaction_goes_behind_what_is_on_the_disk() -> None:
    bed = DiskStage()
    hand = bed.stage.connect()[0]
    hand.say(m.TxSelect())
    hand.publish("q2", 1)
    bed.stage.park("queue:/q1")
    for part in range(4):
        hand.publish_bodies("q1", numbered(400)[part * 100 : part * 100 + 100])
        hand.say(m.TxCommit())
        bed.run()
        bed.stage.unpark("queue:/q1")
        bed.stage.step("queue:/q1", 3)
        bed.stage.park("queue:/q1")
    bed.let_go()
    assert taken(bed.stage, "q1") == numbered(400)
    assert hand.replies[-4:] == [m.TxCommitOk()] * 4
    bed.check_empty()


def test_a_full_disk_leaves_the_lot_in_memory_and_is_told_once() -> None:
    bed = DiskStage()
    bed.files.room = 0
    hand = bed.publisher(1000)
    lot = bed.lot(hand)
    assert lot.disk_bytes == 0 and bed.parking.fault == "no space left on device"
    assert bed.stage.channel(hand).is_stalled and lot.bytes <= LOT
    for _ in range(3):
        bed.wait_for_retry()
    lines = [line for line in bed.stage.world.log.warnings if "parked" in line]
    assert len(lines) == 1 and "stay in memory" in lines[0]
    bed.files.room = -1
    bed.wait_for_retry()
    assert lot.messages == 998 and lot.disk_bytes > 0 and bed.parking.fault == ""
    assert not bed.stage.channel(hand).is_stalled
    bed.let_go()
    assert taken(bed.stage, "q1") == numbered(1000)
    bed.check_empty()


def test_a_read_that_fails_is_tried_again_and_what_is_gone_is_refused() -> None:
    bed = DiskStage()
    hand = bed.publisher(1000, confirms=True)
    bed.disk.fault = OSError(EIO, "input/output error")
    bed.let_go()
    bed.wait_for_retry()
    assert bed.parking.read_fault == "input/output error" and bed.parking.lost == 0
    bed.disk.fault = None
    before = bed.line(hand).pieces[0]
    del bed.files.files[before.file.name if before.file else ""]
    bed.wait_for_retry()
    got = taken(bed.stage, "q1")
    lost = int(bed.parking.lost)
    assert 0 < lost < 1000 and len(got) == 1000 - lost and got == sorted(got)
    confirms = bed.stage.channel(hand).publisher.confirms
    assert confirms is not None and confirms.span() == 0, "each has its ack or nack"
    assert bed.parking.bytes == 0 and not bed.lot(hand).lines


def test_a_file_that_cannot_be_removed_keeps_its_room_until_it_is() -> None:
    bed = DiskStage()
    hand = bed.publisher(1000)
    held = int(bed.parking.bytes)
    hand.say(m.QueueDelete("q1"))
    bed.disk.fault = OSError(EIO, "input/output error")
    for _ in range(3):
        bed.wait_for_retry()
    assert hand.replies[-1] == m.QueueDeleteOk(1000)
    assert bed.parking.bytes == held == sum(map(len, bed.files.contents().values()))
    lines = [line for line in bed.stage.world.log.warnings if "cannot remove" in line]
    assert 0 < len(lines) <= len(bed.files.names()), "once for each file"
    bed.disk.fault = None
    bed.wait_for_retry()
    bed.check_empty()


def test_bytes_that_are_not_what_was_written_are_lost() -> None:
    bed = DiskStage()
    bed.publisher(1000)
    for name in bed.files.names():
        bed.files.flip(name, 8 * 40)
    bed.let_go()
    assert bed.parking.lost > 0
    assert len(taken(bed.stage, "q1")) == 1000 - bed.parking.lost
    bed.check_empty()


def test_lots_share_the_disk_fairly_and_stop_where_it_ends() -> None:
    bed = DiskStage(bytes_max=60_000, piece_bytes=3000)
    hands = [bed.publisher(2000) for _ in range(3)]
    shares = [int(bed.lot(hand).disk_bytes) for hand in hands]
    assert shares[0] <= 30_000 and bed.parking.bytes <= 60_000
    assert shares[0] > shares[1] > shares[2] > 3000, "each half of what the others leave"
    assert all(bed.stage.channel(hand).is_stalled for hand in hands)
    bed.let_go()
    assert len(taken(bed.stage, "q1")) == 6000
    bed.check_empty()


def test_small_fronts_let_publishes_of_any_size_go() -> None:
    """The fronts of thousands of lines are smaller than the least that is worth a piece."""
    bed = DiskStage(piece_bytes=1500)
    hand = bed.stage.connect()[0]
    hand.publish("q2", 1)
    bed.stage.park("queue:/q1")
    hand.publish_bodies("q1", [b"%06d" % number + b"x" * 330 for number in range(400)])
    bed.run()
    assert bed.lot(hand).messages == 398 and bed.line(hand).disk_messages > 250
    bed.let_go()
    assert [body[:6] for body in taken(bed.stage, "q1")] == numbered(400)
    bed.check_empty()


def test_lines_that_have_nothing_to_write_are_not_looked_through_for_each_publish() -> None:
    bed = DiskStage(lot_bytes=200_000)
    bed.parking.piece_bytes_min = 1 << 20
    hand = bed.publisher(600)
    lot = bed.lot(hand)
    assert lot.bytes > 150_000 and lot.disk_bytes == 0
    assert bed.parking.number < 40, "a look begins a file, used or not"
    bed.let_go()
    assert taken(bed.stage, "q1") == numbered(600)
    bed.check_empty()


def test_what_the_disk_makes_room_for_is_not_refused() -> None:
    bed = DiskStage()
    bed.broker.full_actions.default = "close"
    hand = bed.publisher(1000)
    assert bed.lot(hand).messages == 998, "no 406 while the disk has room"
    bed.let_go()
    assert len(taken(bed.stage, "q1")) == 1000


def test_a_start_forgets_what_another_life_has_left() -> None:
    bed = DiskStage()
    files = SimDisk({"000000000007.parked": b"x", "kept": b"y"})
    bed.broker.park_on(files, HandDisk())
    assert files.names() == ["kept"]


def test_pieces_are_what_they_were() -> None:
    addresses = [Address("x", "key"), Address("", "q" * 255)]
    addresses[0].method = b"\x00\x3c\x00\x28 and more"
    found = []
    for number in range(5):
        message = make_content(3, b"", b"\0" * 14, b"b" * number * 10, 100)
        message.address = addresses[number // 3]
        message.sequence = number - 1
        found.append(message)
    files = SimDisk()
    job = WriteParked(files, "a.parked")
    before: Address | None = None
    sizes = 0
    for one in found:
        sizes += int(record_bytes(one, before))
        before = one.address
    assert sizes == len(encode(found))
    place = job.add(found, sizes)
    other = job.add(found[:1], int(record_bytes(found[0], None)))
    job.run()
    for at, wanted in ((place, found), (other, found[:1])):
        read = ReadParked(files, at)
        read.run()
        assert list(map(told, read.messages)) == list(map(told, wanted))
    assert decode(b"") == []
    files.room = 10
    with pytest.raises(OSError, match="space") as caught:
        WriteParked.run(filled(files, found))
    assert caught.value.errno == ENOSPC and files.names() == ["a.parked"]


def filled(files: SimDisk, messages: list[Message]) -> WriteParked:
    job = WriteParked(files, "b.parked")
    job.add(messages, len(encode(messages)))
    return job


def told(message: Message) -> tuple[object, ...]:
    address = message.address
    names = address.exchange, address.routing_key, address.method, address.suffix
    return bytes(message.raw), int(message.body_size), int(message.sequence), *names
