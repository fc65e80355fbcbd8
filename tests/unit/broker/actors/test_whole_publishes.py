"""Which publishes a batch holds as a whole."""

from penstock.broker.actors import whole_publishes
from penstock.broker.actors.confirms import Confirms
from penstock.broker.actors.whole_publishes import RUNS_MAX, WholePublishes
from penstock.protocol.content import Message
from penstock.replication.seen import Run, decode_runs
from tests.crash.life import message

A, B = b"a" * 16, b"b" * 16


def sent(confirms: Confirms, queues: int) -> Message:
    one = message(b"body")
    sequence = confirms.begin()
    one.sequence = int(sequence)
    confirms.expect(sequence, queues)
    return one


def whole(*requests: tuple[bytes, Confirms, list[Message]]) -> list[Run]:
    publishes = WholePublishes()
    for request in requests:
        publishes.add(*request)
    return decode_runs(publishes.encoded())


def test_those_for_one_queue_are_runs_by_publisher() -> None:
    one, two = Confirms(), Confirms()
    mine, others = [sent(one, 1) for _ in range(6)], [sent(two, 1) for _ in range(2)]
    found = whole((A, one, mine[:2]), (B, two, others), (A, one, mine[2:3]), (A, one, mine[4:]))
    assert found == [Run(A, 1, 3), Run(A, 5, 6), Run(B, 1, 2)]


def test_one_for_several_queues_is_whole_with_the_last_of_them() -> None:
    confirms = Confirms()
    both, alone = sent(confirms, 2), sent(confirms, 1)
    assert whole((A, confirms, [both, alone])) == [Run(A, 2, 2)]
    assert whole((A, confirms, [both]), (A, confirms, [both])) == [Run(A, 1, 1)]
    # The first queue has it since an earlier batch, and that is known.
    confirms.accept(int(both.sequence))
    assert whole((A, confirms, [both])) == [Run(A, 1, 1)]


def test_what_nobody_waits_for_is_left_out() -> None:
    confirms = Confirms()
    answered, unnumbered = sent(confirms, 1), message(b"none")
    confirms.accept(int(answered.sequence))
    assert unnumbered.sequence < 0
    assert whole((A, confirms, [answered, unnumbered])) == []


def test_numbers_are_whole_behind_many_that_were_answered() -> None:
    confirms = Confirms()
    for _ in range(3000):
        sent(confirms, 0)
    confirms.collect_multiple()
    assert whole((A, confirms, [sent(confirms, 1)])) == [Run(A, 3001, 3001)]


def test_a_batch_has_no_more_runs_than_are_allowed() -> None:
    confirms = Confirms()
    messages = [sent(confirms, 1) for _ in range(2 * RUNS_MAX + 10)]
    found = whole((A, confirms, messages[::2]), (B, confirms, messages[1::2]))
    assert len(found) == whole_publishes.RUNS_MAX
    assert {run.reference for run in found} == {A}
