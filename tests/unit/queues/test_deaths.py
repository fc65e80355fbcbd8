"""The record of deaths: order, counts, first and last, and the rule against cycles."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocol.values import Table, decode_table, encode_table
from penstock.queues.deaths import Death, deaths_of, is_cycle, with_death

QUEUES = st.sampled_from(["a", "b", "c"])
REASONS = st.sampled_from(["expired", "maxlen", "rejected", "delivery_limit"])


def death(queue: str, reason: str, time_s: int = 1_700_000_000, expiration: str = "") -> Death:
    return Death(queue, reason, time_s, "orders", ["key", "copy"], expiration)


def test_the_first_death_is_recorded_whole() -> None:
    headers = with_death({"mine": 1}, death("q", "expired", 17, "60000"))
    assert headers["mine"] == 1
    assert deaths_of(headers) == [
        {
            "count": 1,
            "reason": "expired",
            "queue": "q",
            "time": 17,
            "exchange": "orders",
            "routing-keys": ["key", "copy"],
            "original-expiration": "60000",
        }
    ]
    assert headers["x-first-death-queue"] == headers["x-last-death-queue"] == "q"


def test_the_same_death_again_counts_up_moves_to_the_front_and_keeps_its_time() -> None:
    headers = with_death({}, death("q", "expired", 17))
    headers = with_death(headers, death("other", "maxlen", 18))
    headers = with_death(headers, death("q", "expired", 19))
    first, second = deaths_of(headers)
    assert (first["queue"], first["count"], first["time"]) == ("q", 2, 17)
    assert (second["queue"], second["count"]) == ("other", 1)
    assert headers["x-first-death-reason"] == "expired"
    assert headers["x-last-death-queue"] == "q"


def test_the_headers_given_are_not_changed() -> None:
    before: Table = {"x-death": [{"queue": "q", "reason": "expired", "count": 1}]}
    with_death(before, death("q", "expired"))
    assert before == {"x-death": [{"queue": "q", "reason": "expired", "count": 1}]}


def test_a_record_that_is_none_is_replaced() -> None:
    assert len(deaths_of(with_death({"x-death": "mine"}, death("q", "expired")))) == 1


def test_a_way_round_without_a_rejection_is_a_cycle() -> None:
    headers = with_death(with_death({}, death("a", "expired")), death("b", "maxlen"))
    assert is_cycle("a", headers)
    assert is_cycle("b", headers)
    assert not is_cycle("c", headers)


def test_a_rejection_on_the_way_makes_it_none() -> None:
    headers = with_death(with_death({}, death("a", "expired")), death("b", "rejected"))
    assert not is_cycle("a", headers)
    assert not is_cycle("b", headers)
    headers = with_death(with_death({}, death("a", "rejected")), death("b", "expired"))
    assert is_cycle("b", headers)
    assert not is_cycle("a", headers)


@given(st.lists(st.tuples(QUEUES, REASONS), max_size=20))
def test_counts_sum_to_the_deaths_and_survive_the_wire(story: list[tuple[str, str]]) -> None:
    headers: Table = {}
    for queue, reason in story:
        headers = with_death(headers, death(queue, reason))
        data = encode_table(headers)
        headers = decode_table(data, 0, len(data))[0]
    found = deaths_of(headers)
    assert sum(int(str(one["count"])) for one in found) == len(story)
    assert len({(one["queue"], one["reason"]) for one in found}) == len(found)
    if story:
        assert (found[0]["queue"], found[0]["reason"]) == story[-1]
