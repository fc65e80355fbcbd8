"""When a batch waits for publishers that are about to send again, and when no more."""

from penstock.broker.store.gathering import FLOW_MESSAGES, GATHER_MESSAGES, Gathering
from penstock.flow.profile import PENSTOCK
from penstock.protocol import methods as m
from tests.spec.stage import Hand
from tests.spec.test_store_scenarios import Depot

MS_NS = 1_000_000


def steady(unanswered: int) -> Gathering:
    """A window of `unanswered` messages was full at three ends of batches."""
    gathering = Gathering()
    gathering.wait_ns = MS_NS
    for _ in range(3):
        gathering.unanswered = unanswered
        gathering.ended()
        gathering.sent()
    return gathering


def test_a_batch_waits_until_the_window_is_full_again() -> None:
    gathering = steady(200)
    gathering.unanswered = 104
    assert gathering.has_to_wait()
    gathering.unanswered = 200
    assert not gathering.has_to_wait()


def test_nothing_waits_before_a_window_is_known_or_where_it_must_not() -> None:
    gathering = Gathering()
    gathering.wait_ns = MS_NS
    for number in range(50):
        gathering.unanswered = 10 + number * 7 % 50
        gathering.ended()
        gathering.unanswered = 1
        assert not gathering.has_to_wait()
    gathering = steady(200)
    gathering.unanswered = 104
    gathering.wait_ns = 0
    assert not gathering.has_to_wait()


def test_who_waited_in_vain_tries_again_later_and_later() -> None:
    gathering = steady(200)
    repeats = []
    for _ in range(4):
        gathering.unanswered = 104
        assert gathering.has_to_wait()
        gathering.waits()
        gathering.is_late = True
        assert not gathering.has_to_wait()
        gathering.sent()
        assert gathering.peak == 104
        count = 0
        gathering.unanswered = 200
        gathering.ended()
        while True:
            gathering.unanswered = 104
            if gathering.has_to_wait():
                break
            gathering.unanswered = 200
            gathering.ended()
            count += 1
        repeats.append(count)
    assert repeats == [4, 8, 16, 32]


def test_messages_that_do_not_come_because_of_answers_begin_a_new_window() -> None:
    gathering = steady(200)
    gathering.unanswered = 230
    gathering.ended()
    gathering.unanswered = 100
    assert not gathering.has_to_wait()


def flowing(unanswered: int) -> Gathering:
    """Without a window, `unanswered` messages in the batch that is being made."""
    gathering = Gathering()
    gathering.wait_ns = MS_NS
    gathering.unanswered = 5000
    gathering.ended()
    gathering.unanswered = unanswered
    return gathering


def test_a_flow_is_gathered_until_there_are_enough() -> None:
    assert not flowing(FLOW_MESSAGES - 1).has_to_wait()
    gathering = flowing(FLOW_MESSAGES)
    assert gathering.has_to_wait()
    gathering.waits()
    gathering.unanswered = GATHER_MESSAGES - 1
    assert gathering.has_to_wait()
    gathering.unanswered = GATHER_MESSAGES
    assert not gathering.has_to_wait()


def test_a_flow_that_dries_up_is_waited_for_less_and_less() -> None:
    gathering = flowing(FLOW_MESSAGES)
    at_once = []
    for _ in range(4):
        gathering.waits()
        gathering.is_late = True
        gathering.sent()
        count = 0
        while not gathering.has_to_wait():
            gathering.sent()
            count += 1
        at_once.append(count)
    assert at_once == [1, 2, 4, 8]


class Window(Depot):
    """A publisher with a window of ten, whose store knows it."""

    def __init__(self) -> None:
        super().__init__(PENSTOCK)
        self.store.gathering.wait_ns = MS_NS
        self.hand: Hand = self.connect()[0]
        self.hand.say(m.ConfirmSelect())
        self.settle()
        self.send(self.hand, "d1", 100, 4)
        self.send(self.hand, "d1", 100, 6)
        for _ in range(3):
            self.disk.work()
            self.settle()
            self.send(self.hand, "d1", 100, 10 - self.unanswered())

    def unanswered(self) -> int:
        return self.hand.client.session.unconfirmed(self.hand.channel)

    def pass_ms(self, ms: int) -> None:
        self.world.clock.jump(self.world.clock.now_ns + ms * MS_NS)
        while self.world.timers.is_due():
            self.world.timers.run_next()
        self.settle()


def test_two_halves_of_a_window_become_one_batch() -> None:
    depot = Window()
    sizes = []
    for _ in range(4):
        depot.disk.work()
        depot.settle()
        depot.send(depot.hand, "d1", 100, 10 - depot.unanswered())
        sizes.append(sum(len(one.messages) for one in depot.store.under_way))
    assert sizes[-2:] == [10, 10]


def test_a_publisher_that_stops_does_not_keep_the_batch_back() -> None:
    depot = Window()
    depot.write()
    depot.pass_ms(1)
    depot.write()
    assert depot.unanswered() == 0
    for _ in range(4):
        depot.send(depot.hand, "d1", 100, 10)
        depot.write()
    depot.send(depot.hand, "d1", 100, 5)
    assert depot.store.batch is None and depot.unanswered() == 5
    depot.pass_ms(1)
    assert depot.store.batch is not None
    depot.write()
    assert depot.unanswered() == 0
