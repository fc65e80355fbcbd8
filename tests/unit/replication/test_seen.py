"""What members remember of publishes in the log, and what they answer."""

import random

from penstock.replication import seen
from penstock.replication.actions import Action
from penstock.replication.positions import NOWHERE, Entry, Position
from penstock.replication.replica import Replica
from penstock.replication.seen import Answer, Run, Seen, decode_runs, encode_runs
from penstock.replication.state import MemberState

A, B, C = (bytes((n,)) * seen.REFERENCE_BYTES for n in (1, 2, 3))


def test_runs_come_back_as_they_were_said() -> None:
    runs = [Run(A, 1, 1), Run(B, 7, 1 << 40), Run(A, 1 << 60, (1 << 60) + 5)]
    runs[1] = Run(B, 1 << 40, (1 << 40) + 999)
    data = encode_runs(runs)
    assert decode_runs(data) == runs
    assert decode_runs(data[:-1]) == runs[:-1], "half a run says nothing"
    assert decode_runs(seen.RUN.pack(A, 1, 0)) == []


def test_numbers_that_follow_each_other_are_one_run() -> None:
    kept = Seen(2000)
    for number in range(1, 1001):
        kept.note(encode_runs([Run(A, number, number), Run(B, 2 * number, 2 * number)]))
    assert len(kept) <= 1 + seen.RUNS_OF_ONE
    assert kept.among([Run(A, 5, 2000)], 10) == [Run(A, 5, 1000)]
    assert kept.among([Run(C, 1, 10)], 10) == []


def test_answers_are_those_of_a_set() -> None:
    chance = random.Random(1)
    for _ in range(200):
        kept, held = Seen(1 << 20), set()
        for _ in range(chance.randrange(20)):
            reference, first = chance.choice((A, B)), chance.randrange(1, 60)
            last = first + chance.randrange(5)
            kept.note(encode_runs([Run(reference, first, last)]))
            held |= {(reference, number) for number in range(first, last + 1)}
        asked = [Run(one, chance.randrange(1, 30), chance.randrange(30, 70)) for one in (A, B)]
        answer = Answer(kept.among(asked, 1000))
        for reference, first, last in asked:
            for number in range(70):
                wanted = first <= number <= last and (reference, number) in held
                assert answer.has(reference, number) == wanted


def test_at_the_bound_whoever_was_silent_for_longest_is_forgotten() -> None:
    kept = Seen(4)
    for reference in (A, B, A):
        for number in (1, 3):
            kept.note(encode_runs([Run(reference, number, number)]))
    assert kept.among([Run(A, 1, 9), Run(B, 1, 9)], 9) == [Run(A, 1, 1), Run(A, 3, 3)] * 2
    kept.note(encode_runs([Run(C, 5, 5)]))
    assert [run.reference for run in kept.among([Run(B, 1, 9), Run(C, 1, 9)], 9)] == [C]


def test_one_that_is_never_in_a_row_forgets_its_oldest() -> None:
    kept = Seen(1 << 20)
    for number in range(1, 10 * seen.RUNS_OF_ONE, 2):
        kept.note(encode_runs([Run(A, number, number)]))
    assert len(kept) <= seen.RUNS_OF_ONE
    newest = 10 * seen.RUNS_OF_ONE - 1
    assert kept.among([Run(A, newest, newest)], 1) == [Run(A, newest, newest)]
    assert kept.among([Run(A, 1, 1)], 1) == []
    assert len(kept.among([Run(A, 1, newest)], 7)) == 7, "no more than is asked for"


def replica() -> Replica:
    actions: list[Action] = []
    return Replica("a", MemberState(identity="x", is_whole=True), NOWHERE, actions)


def test_a_member_remembers_what_it_takes_until_its_log_is_another_one() -> None:
    for is_copied in (True, False):
        one = replica()
        one.take(Entry(1, 1, b"payload", encode_runs([Run(A, 1, 4)])))
        assert one.seen.among([Run(A, 2, 9)], 9) == [Run(A, 2, 4)]
        assert one.ring.bytes == len(b"payload") + seen.RUN.size
        if is_copied:
            one.restart_at(Position(3, 9))
        else:
            one.forget_history()
        assert one.seen.among([Run(A, 2, 9)], 9) == []
