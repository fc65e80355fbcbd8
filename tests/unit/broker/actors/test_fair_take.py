"""broker/actors/fair_take: deficit round robin over the lanes of a queue."""

from penstock.base.clock import ManualClock
from penstock.broker.actors.actor import Line
from penstock.broker.actors.fair_take import affordable, allot
from penstock.broker.actors.lane import Answerable, Lane, LaneReceiver
from penstock.flow.account import Account
from penstock.flow.gate import Gate, GateObserver
from penstock.flow.hop import LAYER_CHANNEL, LAYER_QUEUE
from penstock.protocol.content import Message
from penstock.telemetry.recorder import Recorder

CLOCK = ManualClock()
QUEUE = LaneReceiver("queue:/q", Line(CLOCK, Recorder(CLOCK, 16)))


def lane(count: int, size: int) -> Lane:
    gate = Gate("chan:a/1", CLOCK, GateObserver())
    made = Lane(
        "chan:a/1", LAYER_CHANNEL, gate, QUEUE, LAYER_QUEUE, Account("a", None, None, 0),
        Answerable(),
    )  # fmt: skip
    for _ in range(count):
        made.items.append(Message(bytes(size), 0))
    return made


def rounds(lanes: list[Lane], quantum: int, count: int) -> list[int]:
    """Bytes taken from each lane in `count` rounds."""
    taken = [0] * len(lanes)
    for _ in range(count):
        pending = [one for one in lanes if one.items]
        if not pending:
            break
        allot(pending, quantum)
        for number, one in enumerate(lanes):
            some = int(affordable(one, 1000)) if one.items else 0
            taken[number] += sum(len(message.raw) for message in one.items[:some])
            del one.items[:some]
    return taken


def test_lanes_that_stay_full_get_the_same_bytes_whatever_their_messages() -> None:
    taken = rounds([lane(10_000, 100), lane(1000, 1000), lane(100, 10_000)], 500, 400)
    assert max(taken) - min(taken) <= 10_000, taken
    assert min(taken) > 100_000


def test_if_nobody_can_take_anything_rounds_are_skipped() -> None:
    """One round is enough for a large message when there is nothing small to take meanwhile."""
    assert rounds([lane(1, 10_000), lane(1, 30_000)], 100, 1) == [10_000, 0]


def test_what_was_saved_is_forgotten_when_the_mailbox_is_empty() -> None:
    one, two = lane(1, 10), lane(5, 400)
    rounds([one, two], 500, 1)
    assert one.saved_bytes == 0
    assert two.saved_bytes == 100, "it waits for its next one"


def test_no_more_than_the_budget_is_taken() -> None:
    one = lane(10, 10)
    allot([one], 1000)
    assert affordable(one, 3) == 3
    assert one.saved_bytes == 970


def test_an_empty_lane_costs_nothing() -> None:
    empty, full = lane(0, 1), lane(2, 50)
    allot([empty, full], 100)
    assert affordable(empty, 10) == 0
    assert affordable(full, 10) == 2
