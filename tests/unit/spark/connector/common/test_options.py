"""Options: good ones mean what they say, bad ones are refused by name, secrets stay secret."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.opening import open_connection
from penstock.spark.connector.common.option_values import time_ms
from penstock.spark.connector.common.options import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    of_queue,
    parse_sink,
    parse_source,
)

TWO = {"queues": "a,b", "mode": "stream"}
REPOSITORY = Path(__file__).resolve().parents[5]


def test_defaults_are_those_of_the_reference() -> None:
    options = parse_source({"queue": "orders"})
    assert (options.mode, options.is_auto) == ("auto", True)
    found = parse_source({"queue": "orders"}, (), "lease")
    assert (found.mode, found.is_auto, found.max_rows) == ("lease", True, 50_000)
    assert parse_source({"queue": "orders"}, (), "stream").max_rows == 100_000
    given = parse_source({"queue": "orders", "mode": "queue"})
    assert (given.mode, given.is_auto, given.prefetch) == ("queue", False, 20_000)
    assert (options.min_rows, options.max_delay_ms, options.partitions) == (0, 900_000, 0)
    assert options.endpoint.url.address() == "localhost:5672"
    assert parse_source({"queue": "s", "mode": "stream"}).max_rows == 100_000
    sink = parse_sink({})
    assert (sink.in_flight, sink.is_mandatory, sink.is_persistent) == (10_000, True, True)


def test_names_come_in_any_case_and_values_with_units() -> None:
    options = parse_source(
        {
            "QUEUE": "orders",
            "Mode": "Queue",
            "maxRECORDSpertrigger": "500",
            "minoffsetspertrigger": "20",
            "maxtriggerdelay": "2m",
            "maxbytespertrigger": "3m",
            "includeheaders": "TRUE",
        }
    )
    assert (options.max_rows, options.min_rows, options.max_delay_ms) == (500, 20, 120_000)
    assert (options.max_bytes, options.has_headers, options.prefetch) == (3 << 20, True, 1000)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["queue is missing"]),
        ({"queue": "q", "maxOffsetPerTrigger": "5"}, ["did you mean maxOffsetsPerTrigger?"]),
        ({"queue": "q", "zzz": "5"}, ["'zzz'", "Known: bodyColumn, ", "maxTriggerDelay"]),
        ({"queue": "q", "mode": "queue", "maxOffsetsPerTrigger": "-1"}, ["'-1'", "1..65535"]),
        ({"queue": "q", "mode": "queue", "maxOffsetsPerTrigger": "65536"}, ["1..65535"]),
        ({"queue": "q", "maxOffsetsPerTrigger": "9", "maxRecordsPerTrigger": "9"}, ["twice"]),
        ({"queue": "q", "maxTriggerDelay": "5"}, ["with its unit", "15m"]),
        ({"queue": "q", "maxBytesPerTrigger": "0"}, ["1..", "64m"]),
        ({"queue": "q", "mode": "file"}, ["auto or lease or stream or queue"]),
        ({"queue": "q", "mode": "lease", "group": "checkpoint-1"}, ["made up", "another name"]),
        ({"queue": "q", "mode": "auto", "group": "g" * 201}, ["longer than the 200 bytes"]),
        ({"queue": "q", "mode": "queue", "group": "g"}, ["for mode=lease"]),
        ({"queue": "q", "mode": "lease", "group": "g", "prefetch": "9"}, ["for mode=queue"]),
        ({"queue": "q", "mode": "lease", "group": "g", "readMode": "amqp"}, ["for mode=stream"]),
        (
            {"queue": "q", "mode": "queue", "prefetch": "10"},
            ["maxOffsetsPerTrigger (10000)"],
        ),
        ({"queue": "q", "mode": "queue", "minOffsetsPerTrigger": "10001"}, ["1..10000"]),
        ({"queue": "q", "includeHeaders": "yes"}, ["true or false"]),
        ({"queue": "q", "mode": "queue", "startingOffsets": "earliest"}, ["for mode=stream"]),
        ({"queue": "q", "mode": "stream", "prefetch": "9"}, ["for mode=queue"]),
        ({"queue": "q", "mode": "stream", "startingOffsets": "soon"}, ["earliest, latest or"]),
        ({"queue": "q", "tls.caFile": "ca.pem"}, ["amqps://"]),
        ({"queue": "q" * 256}, ["255 bytes"]),
        ({"queue": "q", "queues": "a,b"}, ["give one of them"]),
        ({"queues": "a,,b"}, ["none of them empty"]),
        ({"queue": "q", "queuePattern": "a.*"}, ["queue and queuePattern: give one"]),
        ({"queuePattern": "a(b"}, ["no regular expression", "a(b"]),
        ({"queuePattern": "a{99999999999}"}, ["no regular expression", "too large"]),
        ({"queues": "a, b,a"}, ["twice: a, b, a"]),
        ({"queues": ",".join(f"q{n}" for n in range(257))}, ["257 queues", "256 at most"]),
        ({"queues": "a,b,c", "maxOffsetsPerTrigger": "2"}, ["less than the 3 queues"]),
        ({"queue": "q", "targetBatchDuration": "2"}, ["with its unit"]),
        ({"queue": "q", "mode": "queue", "filterPushdown": "true"}, ["for mode=stream"]),
        (
            {"queue": "q", "mode": "queue", "failOnDataLoss": "false"},
            ["lease or stream or auto"],
        ),
        ({"queue": "q", "bodyColumn": "Offset"}, ["'Offset'", "another one than queue, offset,"]),
        ({"queue": "q", "bodyColumn": ""}, ["bodyColumn is empty", "leave it out"]),
        ({"queue": "q", "password": "a", "passwordEnv": "B"}, ["give one of them"]),
        ({"queue": "q", "columns": "key"}, ["'key'", "body, queue, offset"]),
        ({"queue": "q", "columns": ""}, ["names ''"]),
        ({"queue": "q", "columns": "body,"}, ["names ''"]),
        ({"queue": "q", "columns": "offset,offset"}, ["'offset' twice"]),
        ({"queue": "q", "columns": "body", "bodyColumn": "value"}, ["'body'", "there are value"]),
        ({"queue": "q", "columns": "properties"}, ["includeProperties=true"]),
        ({**TWO, "startingOffsets": "12"}, ["12", "2 queues", '{"a": 12, "b": 12}']),
        ({**TWO, "startingOffsets": '{"a": 1}'}, ["each of a, b"]),
        ({**TWO, "startingOffsets": '{"a": 1, "b": 2, "c": 3}'}, ["for nothing else"]),
        ({**TWO, "startingOffsets": '{"a": 1,'}, ["no JSON"]),
        ({**TWO, "startingOffsets": '{"a": 1, "b": "soon"}'}, ["'soon'", "earliest, latest"]),
        ({**TWO, "startingOffsets": '{"a": 1, "b": -2}'}, ["'-2'"]),
        ({**TWO, "startingOffsets": "1", "startingTimestamp": "1"}, ["give one of them"]),
        ({**TWO, "startingTimestamp": "yesterday"}, ["'yesterday'", "2026-05-01T12:00:00Z"]),
        ({**TWO, "startingOffsetsByTimestamp": "1700000000000"}, ["each of a, b"]),
        ({**TWO, "startingOffsets": '{"a": ' + "[" * 100_000}, ["no JSON", "recursion"]),
        ({"queue": "q", "maxOffsetsPerTrigger": "9" * 5000}, ["takes a whole number 1.."]),
        ({"queue": "q\ud83d"}, ["queue has half of a character", "its character 2"]),
        ({"queue": "q", "password": "\ud83dhush"}, ["password has half of a character"]),
        ({"queue": "q", "passwordFile": "/a\0b"}, ["passwordFile has a zero byte"]),
        ({"queue": "q", "password": None}, ["password is None", "leave it out"]),
        ({**TWO, "endingOffsets": "earliest"}, ["takes latest or an offset"]),
    ],
)
def test_a_bad_option_is_named_with_what_it_takes(given: dict[str, str], words: list[str]) -> None:
    with pytest.raises(OperatorError) as raised:
        parse_source(given)
    for word in words:
        assert word in str(raised.value)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("given", "found", "word"),
    [
        ({"startingOffsets": "earliest"}, "lease", "startingOffsets is for streams.*queues: q"),
        ({"maxLagBytes": "1k", "group": "g"}, "queue", "maxLagBytes is for streams"),
        ({"prefetch": "9"}, "stream", "prefetch is for ordinary queues.*reads streams: q"),
        ({"leaseTimeout": "1h"}, "stream", "leaseTimeout is for ordinary queues"),
    ],
)
def test_an_option_is_refused_when_its_kind_is_not_what_is_found(
    given: dict[str, str], found: str, word: str
) -> None:
    """Before that nobody knows; and what RabbitMQ alone needs does not hurt with Penstock."""
    assert parse_source({"queue": "q", **given}).is_auto
    with pytest.raises(OperatorError, match=word):
        parse_source({"queue": "q", **given}, (), found)
    portable = {"queue": "q", "prefetch": "20000", "leaseTimeout": "1h", "group": "g"}
    assert parse_source(portable, (), "lease").lease_timeout_ms == 3_600_000
    assert parse_source(portable, (), "queue").prefetch == 20_000


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
def test_an_option_of_another_delivery_is_refused(given: dict[str, str], word: str) -> None:
    with pytest.raises(OperatorError, match=word):
        parse_sink(given)


def test_options_of_a_transaction() -> None:
    usual = parse_sink({})
    assert (usual.delivery, usual.app_id) == (AT_LEAST_ONCE, "")
    assert (usual.staged_bytes, usual.staged_ms) == (16 << 20, 600_000)
    given = {"DELIVERY": "Exactly-Once", "appid": "bills", "maxstagedbytes": "1m"}
    sink = parse_sink({**given, "stagedtimeout": "30s"})
    assert (sink.delivery, sink.app_id) == (EXACTLY_ONCE, "bills")
    assert (sink.staged_bytes, sink.staged_ms) == (1 << 20, 30_000)


def test_names_are_those_the_query_sees() -> None:
    given = {"queue": "q", "bodyColumn": "value", "includeHeaders": "true"}
    assert parse_source(given).columns == ()
    options = parse_source({**given, "columns": "headers, value,offset"})
    assert options.columns == ("headers", "body", "offset")


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


def test_secrets_are_in_no_repr_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"queue": "q", "url": "amqp://anna:s3cret@localhost:1/%2f?connection_timeout=100"}
    assert "s3cret" not in repr(parse_source(given))
    assert "s3cret" not in repr(parse_sink({"url": given["url"]}))
    for bad in ({**given, "password": "hush-hush", "qeue": "x"}, {**given, "mode": "x"}):
        with pytest.raises(OperatorError) as raised:
            parse_source(bad)
        assert "s3cret" not in str(raised.value) and "hush-hush" not in str(raised.value)
    monkeypatch.setenv("CONNECTOR_SECRET", "from-env")
    with pytest.raises(Exception, match="localhost:1") as refused:
        options = parse_source({**given, "passwordEnv": "CONNECTOR_SECRET"})
        open_connection(options.endpoint, "test")
    assert "from-env" not in str(refused.value) and "s3cret" not in str(refused.value)


def test_a_secret_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    missing = parse_source({"queue": "q", "passwordEnv": "NOT_SET_ANYWHERE"})
    with pytest.raises(OperatorError, match="NOT_SET_ANYWHERE"):
        open_connection(missing.endpoint, "test")
    lost = parse_source({"queue": "q", "passwordFile": str(tmp_path / "none")})
    with pytest.raises(OperatorError, match="cannot be read"):
        open_connection(lost.endpoint, "test")


def test_a_key_with_a_password_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    """Started from a terminal OpenSSL would ask there, in the middle of Spark's output."""
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    from cryptography.hazmat.primitives import serialization

    from penstock.cli.certificates import make_authority

    make_authority(tmp_path, 2, datetime.now(UTC))
    place = tmp_path / "key.pem"
    place.write_bytes(
        rsa.generate_private_key(65_537, 2048).private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    given = {"tls.certFile": str(tmp_path / "ca.pem"), "tls.keyFile": str(place)}
    options = parse_source({"queue": "q", "url": "amqps://localhost:1", **given})
    with pytest.raises(OperatorError, match="private key is encrypted"):
        open_connection(options.endpoint, "test")


OF_SPARK = ("checkpointLocation", "path")


def test_every_option_is_in_the_documentation() -> None:
    page = (REPOSITORY / "docs" / "spark-connector.md").read_text(encoding="utf-8")
    missing = [
        option.name
        for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)
        if option.name not in OF_SPARK and f"`{option.name}`" not in page
    ]
    assert not missing
