"""Rows become publishes: columns by their meaning, wrong ones refused before anything is sent."""

import datetime

import pytest

pa = pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError  # noqa: E402
from penstock.protocol.content import Message  # noqa: E402
from penstock.protocol.frames import FrameParser, Received  # noqa: E402
from penstock.protocol.methods import BasicPublish  # noqa: E402
from penstock.protocol.methods.codec import decode_method  # noqa: E402
from penstock.protocol.properties import Properties, decode_properties  # noqa: E402
from penstock.spark.connector.common.options import DEDUP, parse_sink  # noqa: E402
from penstock.spark.connector.sink.messages import (  # noqa: E402
    MessageMaker,
    Origin,
    dedup_key,
    plan_rows,
)

FRAME_BYTES_MAX = 4096
NOBODY = Origin("", "", 0)


def sent(
    columns: dict[str, str], batch: object, options: dict[str, str], origin: Origin = NOBODY
) -> list[tuple[BasicPublish, Properties, bytes]]:
    """What a broker would read: address, properties, body of every row."""
    sink = parse_sink(options)
    maker = MessageMaker(plan_rows(columns, sink), sink, 1, FRAME_BYTES_MAX, origin)
    parser = FrameParser(FRAME_BYTES_MAX, 2**24)
    parser.feed(b"".join(run.data for run in maker.frames(batch)))
    received, found = Received(), []
    while parser.next(received):
        message = received.message
        assert isinstance(message, Message)
        method = decode_method(message.address.method)
        assert isinstance(method, BasicPublish)
        found.append((method, decode_properties(message.header(), 12), message.body()))
    return found


def test_columns_win_over_options_and_null_is_the_option() -> None:
    batch = pa.record_batch(
        {
            "value": pa.array(["a", "b", "x" * 9000]),
            "routing_key": pa.array(["k1", None, "k1"]),
            "message_id": pa.array(["1", "2", None]),
            "priority": pa.array([4, None, None], pa.int32()),
            "headers": pa.array([[("h", "v"), ("n", None)], None, None],
                                pa.map_(pa.string(), pa.string())),
        }
    )  # fmt: skip
    columns = {
        "value": "string", "routing_key": "string", "message_id": "string", "priority": "int",
        "headers": "map<string,string>",
    }  # fmt: skip
    rows = sent(columns, batch, {"exchange": "ex", "routingKey": "usual"})
    assert [(m.exchange, m.routing_key, m.mandatory) for m, _, _ in rows] == [
        ("ex", "k1", True), ("ex", "usual", True), ("ex", "k1", True),
    ]  # fmt: skip
    assert [body for _, _, body in rows] == [b"a", b"b", b"x" * 9000]
    assert rows[0][1] == Properties(
        headers={"h": "v", "n": None}, delivery_mode=2, priority=4, message_id="1"
    )
    assert rows[2][1] == Properties(delivery_mode=2)


def test_a_source_row_goes_out_as_it_came_in() -> None:
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    struct = pa.array([{"content_type": "a/b", "timestamp": when, "delivery_mode": 1}])
    batch = pa.record_batch({"body": pa.array([b"\xff"]), "properties": struct})
    columns = {"body": "binary", "properties": "struct<content_type:string>"}
    ((_, properties, body),) = sent(columns, batch, {"routingKey": "q"})
    assert (properties.content_type, properties.timestamp) == ("a/b", 1_700_000_000)
    assert (properties.delivery_mode, body) == (1, b"\xff")


def test_rows_tell_their_batch_when_asked() -> None:
    batch = pa.record_batch({"body": pa.array([b"a", b"b"])})
    options = {"routingKey": "q", "batchHeaders": "true"}
    rows = sent({"body": "binary"}, batch, options, Origin("query", "17", 3))
    assert [properties.headers for _, properties, _ in rows] == [
        {"x-spark-partition": 3, "x-spark-row": row, "x-spark-query-id": "query",
         "x-spark-batch-id": 17}
        for row in (0, 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"text": "string"}, {"routingKey": "q"}, "one column body"),
        ({"body": "binary", "value": "string"}, {"routingKey": "q"}, "are both"),
        ({"body": "int"}, {"routingKey": "q"}, "binary or string; use cast"),
        ({"body": "binary", "offset": "bigint"}, {"routingKey": "q"}, "ignoreUnknownColumns"),
        ({"body": "binary"}, {}, "nothing says where rows go"),
        ({"body": "binary", "priority": "string"}, {"routingKey": "q"}, "column priority"),
        ({"body": "binary", "headers": "string"}, {"routingKey": "q"}, "column headers"),
    ],
)
def test_wrong_columns_are_refused_at_the_driver(
    columns: dict[str, str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(OperatorError, match=words):
        plan_rows(columns, parse_sink(options))


def test_a_row_that_cannot_be_a_message_is_named() -> None:
    nothing = pa.record_batch({"body": pa.array([b"a", None])})
    with pytest.raises(OperatorError, match="row 1 of the partition has no body"):
        sent({"body": "binary"}, nothing, {"routingKey": "q"})
    wide = pa.record_batch({"body": pa.array([b"a"]), "message_id": pa.array(["x" * 256])})
    with pytest.raises(OperatorError, match=r"row 0 .* longer than 255"):
        sent({"body": "binary", "message_id": "string"}, wide, {"routingKey": "q"})


IN_STRUCT = {"body": "binary", "properties": "struct<timestamp:timestamp>"}
AS_COLUMN = {"body": "binary", "timestamp": "timestamp"}


def at_times(*times_us: int | None, in_struct: bool, zone: str | None = "UTC") -> object:
    """Rows with these timestamps, as a column of their own or of `properties`."""
    times = pa.array(times_us, pa.timestamp("us", zone))
    if in_struct:
        struct = pa.StructArray.from_arrays([times], ["timestamp"])
        return pa.record_batch({"body": pa.array([b"a"] * len(times)), "properties": struct})
    return pa.record_batch({"body": pa.array([b"a"] * len(times)), "timestamp": times})


@pytest.mark.parametrize("in_struct", [False, True])
@pytest.mark.parametrize("zone", ["UTC", None])
def test_times_may_lie_behind_the_year_9999(in_struct: bool, zone: str | None) -> None:
    """As `timestamp '+12000-01-01'`, which Spark has and Python's datetime has not."""
    rows = at_times(2**63 - 1, None, 1_999_999, 0, in_struct=in_struct, zone=zone)
    found = sent(IN_STRUCT if in_struct else AS_COLUMN, rows, {"routingKey": "q"})
    assert [row[1].timestamp for row in found] == [(2**63 - 1) // 1_000_000, None, 1, 0]


@pytest.mark.parametrize("in_struct", [False, True])
@pytest.mark.parametrize(("time_us", "word"), [(-1, "1e-06 s"), (-(2**63), "9.22337e.12 s")])
def test_a_time_before_1970_is_not_changed_into_another(
    in_struct: bool, time_us: int, word: str
) -> None:
    rows = at_times(5, time_us, in_struct=in_struct)
    with pytest.raises(OperatorError, match=rf"row 1 of .* is {word} before 1970.* make it null"):
        sent(IN_STRUCT if in_struct else AS_COLUMN, rows, {"routingKey": "q"})


def test_headers_have_to_fit_into_a_frame() -> None:
    """A broker would end the connection without a word about the row."""

    def row(size: int) -> object:
        headers = pa.array([[("h", "x" * size)]], pa.map_(pa.string(), pa.string()))
        return pa.record_batch({"body": pa.array([b"b"]), "headers": headers})

    columns = {"body": "binary", "headers": "map<string,string>"}
    given = {"routingKey": "q", "persistent": "false"}
    # A frame's 8 bytes, 14 before the properties, 4 and 7 around the text.
    most = FRAME_BYTES_MAX - 33
    assert len(sent(columns, row(most), given)) == 1
    with pytest.raises(OperatorError, match=r"row 0 .* frame of 4097 bytes, .* at most 4096; put"):
        sent(columns, row(most + 1), given)


def test_unknown_columns_may_be_left_out() -> None:
    batch = pa.record_batch({"body": pa.array([b"a"]), "offset": pa.array([4])})
    options = {"routingKey": "q", "ignoreUnknownColumns": "true"}
    assert len(sent({"body": "binary", "offset": "bigint"}, batch, options)) == 1


def test_every_row_has_its_deduplication_key_when_asked() -> None:
    batch = pa.record_batch({"body": pa.array([b"a", b"b"])})
    given = {"routingKey": "q", "delivery": "dedup"}
    rows = sent({"body": "binary"}, batch, given, Origin("query", "4", 1))
    found = [row[1].headers for row in rows]
    assert found == [{"x-deduplication-header": f"query/4/1/{n}"} for n in (0, 1)]


def test_a_deduplication_key_is_the_same_in_every_attempt() -> None:
    options = parse_sink({"delivery": DEDUP})
    assert dedup_key(options, Origin("query", "7", 3, 0)) == "query/7/3"
    assert dedup_key(options, Origin("query", "7", 3, 1)) == "query/7/3"
    named = parse_sink({"delivery": DEDUP, "appId": "bills"})
    assert dedup_key(named, Origin("query", "7", 3)) == "bills/7/3"
    assert dedup_key(parse_sink({}), Origin("query", "7", 3)) == ""
    with pytest.raises(OperatorError, match="writeStream"):
        dedup_key(options, Origin("", "", 0))


def test_rows_of_many_kinds_and_sizes_go_out_as_one_by_one() -> None:
    keys = [None if row % 7 == 0 else f"key.{row % 5}" for row in range(300)]
    sizes = [[3, 0, 40], [1, 70, 5000]]
    for part in sizes:
        bodies = [bytes([row % 256]) * part[row % 3] for row in range(300)]
        batch = pa.record_batch({
            "body": pa.array(bodies), "routing_key": pa.array(keys),
            "priority": pa.array([row % 3 for row in range(300)], pa.int32()),
            "headers": pa.array([[("h", str(row % 2))] for row in range(300)],
                                pa.map_(pa.string(), pa.string())),
        }).slice(4, 290)  # fmt: skip
        columns = {
            "body": "binary", "routing_key": "string", "priority": "int",
            "headers": "map<string,string>",
        }  # fmt: skip
        rows = sent(columns, batch, {"routingKey": "usual"})
        assert [(m.routing_key, p.priority, p.headers, body) for m, p, body in rows] == [
            (keys[row] or "usual", row % 3, {"h": str(row % 2)}, bodies[row])
            for row in range(4, 294)
        ]
