"""flow/room: a mark that holds whoever sends, turns in bytes, and what is lent and taken back."""

import pytest

from penstock.base.clock import ManualClock
from penstock.broker.actors.actor import Line
from penstock.broker.actors.lane import Answerable, Lane, LaneReceiver
from penstock.flow.account import Account
from penstock.flow.credit import Credit, Window
from penstock.flow.gate import Deferred, Gate, GateObserver
from penstock.flow.room import BAND_BYTES, EMPTY_PARTS, Room
from penstock.telemetry.recorder import Recorder

MARK = 10_000
EXTRA = 10


class Sender(Answerable):
    """A sender with messages of one size that waits for as long as `left` is above 0."""

    def __init__(self, bed: "Bed", size: int, left: int) -> None:
        gate = Gate(f"chan:{len(bed.senders)}/1", bed.clock, GateObserver())
        self.origin = Account(gate.name, None, None, 0)
        self.hop = Lane(gate.name, 1, gate, bed.receiver, 3, self.origin, self)
        self.bed = bed
        self.size = size
        self.left = left
        self.sent_bytes = 0

    def next_bytes(self, lane: Lane) -> int:
        return self.size if self.left > 0 else 0

    def press(self) -> None:
        """Hand over while the hop is open; ask when it is not."""
        while self.left > 0 and not self.hop.is_closed:
            self.left -= 1
            self.sent_bytes += self.size
            self.bed.strategy.charge(self.hop, self.origin, 1, self.size)
        room = self.hop.room
        if self.left > 0 and isinstance(room, Room):
            room.ask(self.hop, self.size)


class Bed:
    """A receiver that takes everything at once, and what its senders are."""

    def __init__(self, mark_bytes: int = MARK) -> None:
        self.clock = ManualClock()
        self.receiver = LaneReceiver("queue:/q", Line(self.clock, Recorder(self.clock, 1)))
        self.gate = self.receiver.gate
        self.room = Room(self.gate, "consumers:/q", EXTRA)
        self.strategy = Credit("credit", Window(40, 20, "messages"), Window(0, 0, "bytes"))
        self.mark_bytes = mark_bytes
        self.content = 0
        self.senders: list[Sender] = []
        self.most = 0
        self.room.measure(0, mark_bytes)

    def join(self, size: int, left: int) -> Sender:
        sender = Sender(self, size, left)
        self.strategy.wire(sender.hop)
        self.room.join(sender.hop)
        self.senders.append(sender)
        return sender

    def turn(self, drained: int = 0) -> bool:
        """Everybody presses, the receiver takes all of it and measures; whether it wants more."""
        for sender in self.senders:
            sender.press()
            self.most = max(self.most, self.content + int(self.room.in_flight_bytes))
        self.look()
        for sender in self.senders:
            count, bytes_ = int(sender.hop.in_flight), int(sender.hop.in_flight_bytes)
            if count:
                self.content += bytes_ + count * EXTRA
                self.strategy.repay(sender.hop, sender.origin, count, bytes_)
            sender.hop.check()
        self.content = max(0, self.content - drained)
        is_more = self.room.measure(self.content, self.mark_bytes)
        self.look()
        return is_more

    def look(self) -> None:
        """The books of the room."""
        room = self.room
        in_flight = sum(
            int(one.hop.in_flight_bytes + one.hop.in_flight * EXTRA) for one in self.senders
        )
        assert room.in_flight_bytes == in_flight
        assert room.lent_bytes == sum(int(one.hop.lent_bytes) for one in self.senders)
        self.most = max(self.most, self.content + in_flight)


def test_as_long_as_there_is_room_everybody_has_his_window() -> None:
    bed = Bed()
    sender = bed.join(90, 1000)
    sender.press()
    assert sender.hop.in_flight == 40 and not bed.room.is_tight and bed.gate.is_open


@pytest.mark.parametrize("count", [1, 10, 200, 2000])
@pytest.mark.parametrize("sizes", [(90,), (990,), (90, 990)])
def test_content_passes_the_mark_by_one_message_at_most(count: int, sizes: tuple[int, ...]) -> None:
    bed = Bed()
    for index in range(count):
        bed.join(sizes[index % len(sizes)], 1000)
    for _ in range(40):
        bed.turn(drained=500)
    assert bed.room.is_tight and not bed.gate.is_open and bed.gate.is_granting
    assert MARK <= bed.most <= MARK + max(sizes) + EXTRA


def test_a_mark_that_is_lowered_takes_nothing_until_it_is_drained() -> None:
    bed = Bed()
    sender = bed.join(90, 10_000)
    for _ in range(10):
        bed.turn()
    bed.mark_bytes = MARK // 2
    sent = sender.sent_bytes
    for _ in range(10):
        bed.turn(drained=500)
    assert sender.sent_bytes == sent
    bed.turn(drained=500)
    bed.turn()
    assert sender.sent_bytes > sent


def test_shares_are_equal_in_bytes_whatever_the_size() -> None:
    bed = Bed()
    for size in (90, 990, 90, 490, 90):
        bed.join(size, 1_000_000)
    for _ in range(50):
        bed.turn(drained=500)
    before = [one.sent_bytes for one in bed.senders]
    for _ in range(1000):
        bed.turn(drained=500)
    shares = [one.sent_bytes - was for one, was in zip(bed.senders, before, strict=True)]
    assert max(shares) - min(shares) <= 2 * 990
    assert sum(shares) >= 1000 * 450


def test_room_for_a_large_message_gathers_while_others_go_on() -> None:
    bed = Bed(mark_bytes=4_000_000)
    large = bed.join(400_000, 1_000_000)
    small = [bed.join(4_000, 1_000_000) for _ in range(4)]
    for _ in range(200):
        bed.turn(drained=20_000)
    longest = gap = 0
    sent = large.sent_bytes
    before = sum(one.sent_bytes for one in small)
    for _ in range(400):
        bed.turn(drained=20_000)
        after = sum(one.sent_bytes for one in small)
        gap = 0 if after > before else gap + 1
        longest = max(longest, gap)
        before = after
    assert large.sent_bytes >= sent + 3 * 400_000
    assert longest <= 8, "20 turns would be the whole of a large message"


def test_who_is_idle_keeps_nothing_from_the_others() -> None:
    bed = Bed()
    idle = [bed.join(90, 1) for _ in range(100)]
    for _ in range(3):
        bed.turn()
    for one in idle:
        # Each has one message more, is lent room for some, and stops.
        one.left = 1
    busy = bed.join(90, 1_000_000)
    for _ in range(300):
        bed.turn(drained=300)
    sent = busy.sent_bytes
    for _ in range(100):
        bed.turn(drained=300)
    assert busy.sent_bytes - sent >= 100 * 300 * 90 // 100 - 200


def test_what_was_lent_to_somebody_who_changed_his_mind_is_taken_back() -> None:
    bed = Bed()
    idle = [bed.join(90, 1000) for _ in range(2)]
    while not bed.room.is_tight:
        bed.turn()
    for one in idle:
        one.press()
        one.left = 0
    bed.content -= 1000
    bed.room.measure(bed.content, MARK)
    assert [one.hop.lent_bytes for one in idle] == [500, 500]
    busy = bed.join(90, 1000)
    assert bed.room.ask(busy.hop, busy.size), "something may be taken back"
    turns = 0
    while bed.room.measure(bed.content, MARK):
        turns += 1
        assert turns < 5
    assert [one.hop.lent_bytes for one in idle] == [0, 0] and all(one.hop.is_shut for one in idle)
    assert busy.hop.lent_bytes == 1000 and not busy.hop.is_shut


def test_a_sender_that_is_gone_takes_what_it_was_lent_along() -> None:
    bed = Bed()
    senders = [bed.join(90, 1000) for _ in range(3)]
    while not bed.room.is_tight:
        bed.turn()
    bed.turn(drained=600)
    for one in senders:
        bed.strategy.forget(one.hop, one.origin)
        bed.room.leave(one.hop)
        assert one.hop.room is None and not one.hop.is_shut
    assert bed.room.lent_bytes == 0 and bed.room.in_flight_bytes == 0
    assert bed.room.waiting == 0 and not bed.room.borrowers


def test_with_nobody_in_line_a_band_is_enough_and_otherwise_an_eighth() -> None:
    bed = Bed()
    sender = bed.join(90, 1000)
    while not bed.room.is_tight:
        bed.turn()
    sender.left = 0
    bed.turn()
    assert bed.room.is_tight
    assert MARK // 4 < BAND_BYTES
    bed.turn(drained=bed.content - MARK * 3 // 4)
    bed.turn()
    assert not bed.room.is_tight and not sender.hop.is_shut and bed.gate.is_open

    crowd = Bed()
    for _ in range(5):
        crowd.join(90, 100_000)
    while not crowd.room.is_tight:
        crowd.turn()
    crowd.content = MARK // EMPTY_PARTS
    crowd.room.measure(crowd.content, MARK)
    assert not crowd.room.is_tight and not any(one.hop.is_closed for one in crowd.senders)


def test_a_message_larger_than_the_mark_goes_in_when_there_is_next_to_nothing_left() -> None:
    bed = Bed()
    large, small = bed.join(3 * MARK, 5), bed.join(90, 100_000)
    for _ in range(400):
        bed.turn(drained=900)
    assert large.sent_bytes >= 3 * 3 * MARK
    assert small.sent_bytes > 0
    assert bed.most <= MARK + 3 * MARK + EXTRA


def test_no_mark_is_no_bound_and_lets_everybody_go() -> None:
    bed = Bed()
    sender = bed.join(90, 1000)
    while not bed.room.is_tight:
        bed.turn()
    bed.mark_bytes = 0
    for _ in range(30):
        bed.turn()
    assert not bed.room.is_tight and sender.left == 0


class Place(Deferred):
    """A commit in line at the gate itself."""

    def __init__(self, bytes_: int) -> None:
        self.left = bytes_

    def release(self) -> None:
        self.left = 0

    def kept_bytes(self) -> int:
        return self.left

    def release_part(self, bytes_: int) -> None:
        self.left -= bytes_


def test_who_waits_at_the_gate_itself_has_half_of_what_is_free() -> None:
    bed = Bed()
    sender = bed.join(90, 100_000)
    while not bed.room.is_tight:
        bed.turn()
    place = Place(2000)
    bed.gate.keep(place)
    sent = sender.sent_bytes
    turns = 0
    while place.left > 0:
        bed.turn(drained=200)
        turns += 1
    assert 10 <= turns <= 25
    assert sender.sent_bytes > sent
    assert bed.gate.deferred == []


def test_what_the_gate_itself_has_half_of_keeps_nobody_waiting_who_has_room() -> None:
    bed = Bed()
    for _ in range(6):
        bed.join(990, 3)
    while bed.content < MARK:
        bed.turn()
    bed.gate.keep(Place(50_000))
    bed.content -= 2 * 1000 + 500
    while bed.room.measure(bed.content, bed.mark_bytes):
        pass
    assert not bed.room.may_serve(), "or somebody has to be woken for it"
    assert sum(not one.hop.is_closed for one in bed.senders) == 2


@pytest.mark.parametrize("sizes", [(990,), (90, 990)])
def test_a_sender_is_let_on_once_for_each_time_it_can_hand_something_over(
    sizes: tuple[int, ...],
) -> None:
    """Or 2,000 senders of which three fit are all woken, and 1,997 of them are shut again: the
    queue was drained at a fifth of its pace."""
    bed = Bed()
    senders = [bed.join(sizes[at % len(sizes)], 1000) for at in range(2000)]
    while not bed.room.is_tight:
        bed.turn()
    before = [(int(one.hop.blocks), one.sent_bytes) for one in senders]
    for _ in range(400):
        bed.turn(3000)
    shut = sum(int(one.hop.blocks) - was for one, (was, _) in zip(senders, before, strict=True))
    sent = sum(
        (one.sent_bytes - was) // one.size for one, (_, was) in zip(senders, before, strict=True)
    )
    assert sent > 1000
    assert shut <= sent * 1.1


def test_room_is_lent_by_the_size_of_what_waits_and_not_of_what_was_sent_last() -> None:
    bed = Bed()
    senders = [bed.join(90, 1000) for _ in range(50)]
    while not bed.room.is_tight:
        bed.turn()
    for one in senders:
        one.size = 990
    before = [(int(one.hop.blocks), one.sent_bytes) for one in senders]
    for _ in range(10):
        bed.turn(3000)
        assert bed.most <= MARK + 990 + EXTRA
    pairs = list(zip(senders, before, strict=True))
    count = sum((one.sent_bytes - was) // 990 for one, (_, was) in pairs)
    assert count >= 20
    assert sum(int(one.hop.blocks) - was for one, (was, _) in pairs) <= count


def test_small_messages_do_not_wait_for_all_the_large_ones_that_came_with_them() -> None:
    """1,000 senders of each: a round of the large ones is 30 of the small ones."""
    bed = Bed(100_000)
    senders = [bed.join(3000 if at % 2 else 100, 10_000) for at in range(1000)]
    while not bed.room.is_tight:
        bed.turn()
    last = dict.fromkeys(senders, 0)
    seen = {one: one.sent_bytes for one in senders}
    drained = longest = 0
    for _ in range(1500):
        bed.turn(2000)
        drained += 2000
        for one in senders:
            if one.sent_bytes > seen[one]:
                seen[one] = one.sent_bytes
                if one.size == 100:
                    longest = max(longest, drained - last[one])
                last[one] = drained
    # A fair turn of a small one is 110 bytes of each of 1,000 senders.
    assert longest <= 3 * 110 * 1000
