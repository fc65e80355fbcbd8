"""AnswerTimes: waits never exceed the time that has passed, and their stages sum to them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.base.clock import ManualClock
from penstock.queues.consumers import Consumer, ConsumerQueue, DeliverySink, Unsent
from penstock.telemetry.answer_times import (
    BASIC_ACK,
    BASIC_RETURN,
    RUNNING_NS,
    TX_COMMIT,
    AnswerTimes,
)

KINDS = st.sampled_from([BASIC_ACK, BASIC_RETURN, TX_COMMIT, 0x32000A])
STEPS_NS = st.one_of(st.integers(0, 50), st.integers(0, 10 * RUNNING_NS))
DEEDS = st.sampled_from(["heard", "queued", "synced", "answered", "sending", "asked", "read"])
MOVES = st.tuples(
    STEPS_NS,
    DEEDS,
    st.integers(0, 1),
    KINDS,
    st.integers(0, 5),
    st.lists(st.integers(-1_000_000, 1_000_000), min_size=4, max_size=4),
)


def total_of(times: AnswerTimes, now_ns: int) -> int:
    found = times.totals(now_ns)
    assert all(sum(one.stages) == one.ns and min(one.stages) >= 0 for one in found)
    return sum(one.ns for one in found)


@given(st.integers(1, 2**40), st.lists(MOVES, max_size=60))
def test_waits_are_within_the_time_and_stages_within_the_waits(
    start_ns: int, moves: list[tuple[int, str, int, int, int, list[int]]]
) -> None:
    above = AnswerTimes(None)
    channels = [AnswerTimes(above), AnswerTimes(above)]
    books = [above, *channels]
    now_ns = start_ns
    for step_ns, deed, which, kind, publishes, wild in moves:
        now_ns += step_ns
        times = channels[which]
        if deed == "heard":
            # The loop saw it a little earlier, but not before it last looked.
            times.heard(now_ns, now_ns + abs(wild[0]), now_ns - abs(wild[1]))
            times.note_unanswered(publishes)
        elif deed == "queued":
            times.queued(now_ns + wild[0])
        elif deed == "synced":
            times.synced(*(max(0, now_ns + one) for one in wild))
        elif deed == "sending":
            above.is_sending = not above.is_sending
        elif deed == "asked":
            times.is_asked = True
        elif deed == "answered":
            times.answered(kind, publishes, 0, now_ns)
        if deed == "read":
            for one in books:
                # Reading changes nothing but that a wait is entered.
                assert total_of(one, now_ns) == total_of(one, now_ns) <= now_ns - start_ns
    for one in books:
        assert total_of(one, now_ns) <= now_ns - start_ns
    assert above.unanswered == sum(one.unanswered for one in channels)


LITTLE_NS = st.integers(0, 1_000)


@given(st.lists(st.tuples(LITTLE_NS, LITTLE_NS, LITTLE_NS, LITTLE_NS, st.booleans()), max_size=30))
def test_a_consumers_time_is_its_clients_or_ours_and_never_both(
    cycles: list[tuple[int, int, int, int, bool]],
) -> None:
    consumer = Consumer("one", ConsumerQueue(), DeliverySink(), Unsent(1), False, False, 1, {})
    consumer.unacked = 1
    assert consumer.room() == 0, "its window of one is full"
    now_ns = first_ns = 1_000_000
    for given_ns, flushed_ns, heard_ns, late_ns, has_messages in cycles:
        now_ns += given_ns
        consumer.hold(ManualClock(now_ns))
        assert consumer.is_held
        held_ns = now_ns
        now_ns += heard_ns + late_ns
        # The last send, and the look at the sockets, may also be from before it was held.
        consumer.free(now_ns, now_ns - late_ns, held_ns + flushed_ns - 500, has_messages)
        assert consumer.answer_ns >= 0 and consumer.given_ns >= 0
        assert consumer.answer_ns <= consumer.full_ns
        assert consumer.answer_ns + consumer.given_ns <= now_ns - first_ns
