"""Deliveries become rows: every column, every kind of header, whatever is malformed."""

import datetime
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow")

from penstock.protocol.properties import Properties  # noqa: E402
from penstock.protocol.values import Table  # noqa: E402
from penstock.spark.connector.common import decode  # noqa: E402
from penstock.spark.connector.common.decode import (  # noqa: E402
    Gathered,
    record_batches,
    stream_offset,
)
from penstock.spark.connector.common.shape import Shape  # noqa: E402
from tests.unit.spark.connector.wire import at_offset, delivery, frames_of  # noqa: E402

BODIES = Shape("s", chosen=("body", "offset"))
WIDE = Shape("orders", has_properties=True, has_headers=True)


def rows(raw: bytes, first: int, shape: Shape) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for batch in record_batches(raw, first, shape):
        batch.validate(full=True)
        found += batch.to_pylist()
    return found


def test_a_row_has_every_column() -> None:
    properties = Properties(
        content_type="text/plain",
        headers={"a": "x", "n": 7, "t": {"in": [1, b"\xff"]}, "v": None, "d": Decimal("1.5")},
        priority=3,
        timestamp=1_700_000_000,
        message_id="m-1",
    )
    raw = b"".join(frames_of(9, b"hello", properties, key="k", redelivered=True))
    when = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)
    (row,) = rows(raw, 41, WIDE)
    details = row.pop("properties")
    assert isinstance(details, dict)
    assert {name: value for name, value in details.items() if value is not None} == {
        "content_type": "text/plain", "priority": 3, "timestamp": when, "message_id": "m-1",
    }  # fmt: skip
    assert row == {
        "body": b"hello",
        "queue": "orders",
        "offset": 41,
        "timestamp": when,
        "exchange": "ex",
        "routing_key": "k",
        "redelivered": True,
        "headers": [
            ("a", "x"), ("n", "7"), ("t", '{"in": [1, "ff"]}'), ("v", None), ("d", "1.5"),
        ],
    }  # fmt: skip


def test_a_table_with_a_number_that_json_lacks_is_json_all_the_same() -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    table: Table = {"t": {"é": [float("nan"), float("inf"), -float("inf"), 0.5]}, "f": float("nan")}
    (row,) = rows(b"".join(frames_of(9, b"", Properties(headers=table), key="k")), 0, WIDE)
    headers: Any = dict(row["headers"])  # type: ignore[call-overload]
    assert headers["f"] == "nan"
    found = json.loads(headers["t"], parse_constant=refuse)
    assert found == {"é": ["NaN", "Infinity", "-Infinity", 0.5]} and "é" in headers["t"]


@given(st.lists(st.binary(max_size=90), max_size=30), st.integers(20, 60))
def test_bodies_come_out_as_they_went_in(bodies: list[bytes], frame_bytes_max: int) -> None:
    raw = b"".join(
        frame
        for tag, body in enumerate(bodies)
        for frame in frames_of(tag + 1, body, frame_bytes_max=frame_bytes_max)
    )
    found = rows(raw, 7, Shape("q"))
    assert [row["body"] for row in found] == bodies
    assert [row["offset"] for row in found] == list(range(7, 7 + len(bodies)))


def test_long_input_comes_in_batches_of_bounded_length() -> None:
    raw = delivery(1, b"x") * (decode.ROWS_PER_ARROW_BATCH + 1)
    batches = list(record_batches(raw, 0, Shape("q")))
    assert [batch.num_rows for batch in batches] == [decode.ROWS_PER_ARROW_BATCH, 1]
    assert batches[1].column("offset").to_pylist() == [decode.ROWS_PER_ARROW_BATCH]


def test_malformed_properties_are_null_and_the_body_is_there() -> None:
    good = delivery(1, b"body", Properties(message_id="abc"))
    # The message id claims to be longer than its frame.
    bad = good.replace(b"\x03abc", b"\xffabc")
    (row,) = rows(bad, 1, WIDE)
    assert (row["body"], row["properties"]) == (b"body", None)
    late = delivery(1, b"body", Properties(timestamp=2**63))
    assert rows(late, 1, Shape("q"))[0]["timestamp"] is None


def test_the_offset_of_a_stream_is_found_wherever_it_stands() -> None:
    wanted = 2**33 + 5
    assert stream_offset(at_offset(5), 0, wanted) == wanted
    assert stream_offset(at_offset(5), 0, 0) == wanted
    headers: Table = {"x-stream-offset": wanted, "later": "x"}
    first = delivery(1, b"", Properties(content_type="a/b", headers=headers))
    assert stream_offset(first, 0, wanted) == wanted
    assert stream_offset(delivery(1, b""), 0, wanted) == -1


def test_a_publisher_cannot_forge_an_offset_at_the_end_of_its_headers() -> None:
    forged = b"\x0fx-stream-offsetl" + (2**33 + 6).to_bytes(8, "big")
    headers: Table = {"x-stream-offset": 2**33 + 5, "z": forged}
    raw = delivery(1, b"", Properties(headers=headers))
    assert stream_offset(raw, 0, 2**33 + 5) == 2**33 + 5


# --- gathered -------------------------------------------------------------------------------


def body(offset: int) -> bytes:
    return b"row %d" % offset


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=12))
def test_every_row_comes_once_with_its_number(pieces: list[tuple[int, int]]) -> None:
    """pieces: rows that are missing before each, and rows in it."""
    gathered, at = Gathered(BODIES), 0
    batches: list[Any] = []
    offsets: list[int] = []
    for gap, count in pieces:
        at += gap
        raw = b"".join(at_offset(offset, body(offset)) for offset in range(at, at + count))
        batches += gathered.add(raw, at, count)
        offsets += range(at, at + count)
        at += count
    batches += gathered.rest()
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert rows == [{"body": body(offset), "offset": offset} for offset in offsets]
    assert len(batches) <= 1 + sum(gap > 0 for gap, _ in pieces)
    assert list(gathered.rest()) == []


@pytest.mark.parametrize(("name", "bound"), [("ROWS_PER_ARROW_BATCH", 3), ("GATHERED_BYTES", 250)])
def test_what_is_held_back_is_bounded(
    monkeypatch: pytest.MonkeyPatch, name: str, bound: int
) -> None:
    monkeypatch.setattr(decode, name, bound)
    size = len(at_offset(0, body(0)))
    assert 2 * size < 250 <= 3 * size
    gathered = Gathered(BODIES)
    counts = []
    for offset in range(7):
        counts.append(
            sum(b.num_rows for b in gathered.add(at_offset(offset, body(offset)), offset, 1))
        )
    assert counts == [0, 0, 3, 0, 0, 3, 0]
