"""Who published what groups have not passed: counted by spans, coarser as there are more."""

import random

from penstock.base.cause import Cause
from penstock.base.limits import STREAM_ORIGIN_SPANS, STREAM_ORIGINS
from penstock.streams.origins import SPAN_MESSAGES, Origins

REST = Cause("vhost:/")
A, B = Cause("conn:a"), Cause("conn:b")


def fill(origins: Origins, *batches: tuple[Cause, int, int], at: int = 0) -> int:
    """Batches of (cause, messages, bytes of each), from offset `at` on; the next offset."""
    for cause, messages, size in batches:
        at += messages
        origins.came(cause, messages, messages * size, at)
    return at


def test_each_cause_has_what_it_published_and_nothing_once_it_is_passed() -> None:
    origins = Origins(REST)
    end = fill(origins, (A, 300, 10), (B, 100, 50), (A, 200, 10))
    assert origins.kept_from(0) == {A: (500, 5000), B: (100, 5000)}
    origins.passed(300)
    assert origins.kept_from(300) == {B: (100, 5000), A: (200, 2000)}
    origins.passed(end)
    assert origins.kept_from(end) == {} and origins.spans == []


def test_the_span_in_the_middle_is_divided_in_proportion() -> None:
    origins = Origins(REST)
    fill(origins, (A, 100, 10), (B, 100, 30))
    origins.passed(50)
    assert origins.kept_from(50) == {A: (75, 750), B: (75, 2250)}


def test_a_batch_of_any_size_is_one_span_more_and_their_number_is_bounded() -> None:
    origins = Origins(REST)
    most = STREAM_ORIGIN_SPANS.default
    end = fill(origins, *((A if number % 3 else B, 4096, 1) for number in range(most + 3)))
    assert len(origins.spans) <= most
    whole = origins.kept_from(0)
    assert whole[A][0] + whole[B][0] == end and whole[B][0] == 4096 * 44
    fill(origins, *((A, 1, 1) for _ in range(20 * SPAN_MESSAGES)), at=end)
    assert len(origins.spans) <= most
    origins.passed(end + 20 * SPAN_MESSAGES)
    assert origins.span_messages == SPAN_MESSAGES, "it is fine again"


def test_of_too_many_causes_the_last_ones_are_the_virtual_hosts() -> None:
    origins = Origins(REST)
    causes = [Cause(f"conn:{number}") for number in range(STREAM_ORIGINS.default + 5)]
    fill(origins, *((cause, 2, 10) for cause in causes))
    kept = origins.kept_from(0)
    assert kept[REST] == (10, 100) and len(kept) == STREAM_ORIGINS.default + 1


def test_sums_are_right_whatever_comes_and_is_passed() -> None:
    dice = random.Random(7)
    origins = Origins(REST)
    end, position = 0, 0
    for _ in range(3000):
        cause = dice.choice([A, B])
        end = fill(origins, (cause, dice.randint(1, 900), 3), at=end)
        if dice.random() < 0.3:
            position = dice.randint(position, end)
            origins.passed(position)
        kept = origins.kept_from(position)
        total = sum(messages for messages, _ in kept.values())
        assert total == end - position
        assert len(origins.spans) <= STREAM_ORIGIN_SPANS.default
