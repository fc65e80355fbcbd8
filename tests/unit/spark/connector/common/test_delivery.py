"""The option `delivery` and those that go with it; what rows and tasks carry for it."""

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.options import (
    AT_LEAST_ONCE,
    DEDUP,
    EXACTLY_ONCE,
    parse_sink,
)
from penstock.spark.connector.sink.messages import Origin, dedup_key

KEY = {"routingKey": "out"}


def test_defaults() -> None:
    sink = parse_sink(KEY)
    assert (sink.delivery, sink.app_id) == (AT_LEAST_ONCE, "")
    assert (sink.staged_bytes, sink.staged_ms) == (16 << 20, 600_000)


def test_options_of_a_transaction() -> None:
    given = {"DELIVERY": "Exactly-Once", "appid": "bills", "maxstagedbytes": "1m"}
    sink = parse_sink({**KEY, **given, "stagedtimeout": "30s"})
    assert (sink.delivery, sink.app_id) == (EXACTLY_ONCE, "bills")
    assert (sink.staged_bytes, sink.staged_ms) == (1 << 20, 30_000)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"delivery": "once"}, "exactly-once or dedup"),
        ({"appId": "a"}, "appId is for delivery=exactly-once or dedup"),
        ({"delivery": "dedup", "maxStagedBytes": "1m"}, "maxStagedBytes is for"),
        ({"delivery": "exactly-once", "appId": "a" * 201}, "200 bytes"),
        ({"delivery": "exactly-once", "stagedTimeout": "10ms"}, "1000"),
        ({"delivery": "exactly-once", "maxStagedBytes": "10"}, "1024"),
    ],
)
def test_what_would_be_ignored_or_cannot_be_is_refused(given: dict[str, str], word: str) -> None:
    with pytest.raises(OperatorError, match=word):
        parse_sink({**KEY, **given})


def test_a_deduplication_key_is_the_same_in_every_attempt() -> None:
    options = parse_sink({**KEY, "delivery": DEDUP})
    assert dedup_key(options, Origin("query", "7", 3, 0)) == "query/7/3"
    assert dedup_key(options, Origin("query", "7", 3, 1)) == "query/7/3"
    named = parse_sink({**KEY, "delivery": DEDUP, "appId": "bills"})
    assert dedup_key(named, Origin("query", "7", 3)) == "bills/7/3"
    assert dedup_key(parse_sink(KEY), Origin("query", "7", 3)) == ""
    with pytest.raises(OperatorError, match="writeStream"):
        dedup_key(options, Origin("", "", 0))
