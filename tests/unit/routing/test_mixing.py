"""Mixed numbers."""

from penstock.routing.mixing import MIXED_SPAN, mixed, text_number


def test_neighbours_are_spread_over_the_whole_span() -> None:
    numbers = [int(mixed(number)) for number in range(4_096)]
    assert len(set(numbers)) == len(numbers)
    buckets = [0] * 16
    for number in numbers:
        assert 0 <= number < MIXED_SPAN
        buckets[number >> 28] += 1
    assert max(buckets) < 2 * min(buckets)


def test_the_ends_of_the_span() -> None:
    assert mixed(0) == 0
    assert 0 <= mixed(MIXED_SPAN - 1) < MIXED_SPAN


def test_a_text_has_one_number_in_every_run() -> None:
    assert text_number("customer.1") == text_number("customer." + str(1))
    assert text_number("customer.1") != text_number("customer.2")
    assert 0 <= text_number("\udcff") < MIXED_SPAN
