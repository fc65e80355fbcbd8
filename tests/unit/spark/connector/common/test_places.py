"""Where to begin and end: three ways to say it, one at a time, for one queue or several."""

import json

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.option_values import time_ms
from penstock.spark.connector.common.options import of_queue, parse_source

TWO = {"queues": "a,b", "mode": "stream"}


def starts(given: dict[str, str]) -> tuple[str, ...]:
    return parse_source({**TWO, **given}).starts


def test_one_word_or_time_is_for_all() -> None:
    assert starts({}) == ("", "")
    assert starts({"startingOffsets": "Earliest"}) == ("earliest", "earliest")
    assert starts({"startingTimestamp": "2026-05-01T12:00:00Z"}) == ("@1777636800000",) * 2
    assert starts({"startingTimestamp": "2026-05-01T14:00:00+02:00"}) == ("@1777636800000",) * 2
    assert starts({"startingTimestamp": "2026-05-01T12:00:00"}) == ("@1777636800000",) * 2
    assert time_ms(starts({"startingTimestamp": "1700000000123"})[0]) == 1_700_000_000_123
    assert time_ms("1700000000123") == -1


def test_json_is_for_each() -> None:
    assert starts({"startingOffsets": json.dumps({"b": 7, "a": "latest"})}) == ("latest", "7")
    times = json.dumps({"a": 5, "b": "1970-01-01T00:00:01Z"})
    assert starts({"startingOffsetsByTimestamp": times}) == ("@5", "@1000")
    options = parse_source({**TWO, "endingOffsets": json.dumps({"a": 3, "b": "latest"})})
    assert [of_queue(options, number).ending for number in (0, 1)] == ["3", "latest"]
    assert [of_queue(options, number).queue for number in (0, 1)] == ["a", "b"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"startingOffsets": "12"}, ["12", "2 queues", '{"a": 12, "b": 12}']),
        ({"startingOffsets": '{"a": 1}'}, ["each of a, b"]),
        ({"startingOffsets": '{"a": 1, "b": 2, "c": 3}'}, ["for nothing else"]),
        ({"startingOffsets": '{"a": 1,'}, ["no JSON"]),
        ({"startingOffsets": '{"a": 1, "b": "soon"}'}, ["'soon'", "earliest, latest"]),
        ({"startingOffsets": '{"a": 1, "b": -2}'}, ["'-2'"]),
        ({"startingOffsets": "1", "startingTimestamp": "1"}, ["give one of them"]),
        ({"startingTimestamp": "yesterday"}, ["'yesterday'", "2026-05-01T12:00:00Z"]),
        ({"startingOffsetsByTimestamp": "1700000000000"}, ["each of a, b"]),
        ({"endingOffsets": "earliest"}, ["takes latest or an offset"]),
    ],
)
def test_a_bad_place_is_named_with_what_it_takes(given: dict[str, str], words: list[str]) -> None:
    with pytest.raises(OperatorError) as raised:
        starts(given)
    for word in words:
        assert word in str(raised.value)
