"""Option columns: fewer columns with the same values, on both read paths."""

from dataclasses import replace

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.protocol.properties import Properties, encode_header_payload
from penstock.spark.connector.common.decode import Shape, record_batches
from penstock.spark.connector.common.option_values import ALWAYS, ASKED_FOR
from penstock.spark.connector.common.options import parse_source
from penstock.spark.connector.stream.chunk_columns import BatchMaker, RowRange
from tests.unit.spark.connector.chunks import Row, built, delivered, viewed

WHOLE = Shape("s", "value", has_properties=True, has_headers=True, has_flow=True)
NAMES = ("body", *ALWAYS, *(name for name, _ in ASKED_FOR))


def row(number: int) -> Row:
    properties = Properties(timestamp=number or None, headers={"n": number})
    return (b"body %d" % number, encode_header_payload(0, properties)[12:], "ex", f"k{number % 2}")


@settings(max_examples=60)
@given(st.sets(st.sampled_from(NAMES), min_size=1))
def test_what_is_chosen_is_as_it_is_among_all(chosen: set[str]) -> None:
    chunks = [built([row(0), row(1)]), built([row(2), row(3)], first=2), built([row(4)], first=9)]
    views = viewed(*chunks)
    pieces = [RowRange(views[0], 1, 2), RowRange(views[1], 0, 2), RowRange(views[2], 0, 1)]
    shape = replace(WHOLE, chosen=tuple(sorted(chosen)))
    names = ["value" if name == "body" else name for name in NAMES if name in chosen]
    found = BatchMaker(shape).batch(pieces)
    assert found.schema.equals(shape.arrow())
    assert found.schema.names == names
    assert found.to_pylist() == BatchMaker(WHOLE).batch(pieces).select(names).to_pylist()
    raw = delivered(*chunks[:2])
    (plain,) = record_batches(raw, 0, shape)
    (everything,) = record_batches(raw, 0, WHOLE)
    assert plain.schema.equals(shape.arrow())
    assert plain.to_pylist() == everything.select(names).to_pylist()


def test_names_are_those_the_query_sees() -> None:
    given = {"queue": "q", "bodyColumn": "value", "includeHeaders": "true"}
    assert parse_source(given).columns == ()
    options = parse_source({**given, "columns": "headers, value,offset"})
    assert options.columns == ("headers", "body", "offset")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"columns": "key"}, ["'key'", "body, queue, offset"]),
        ({"columns": ""}, ["names ''"]),
        ({"columns": "body,"}, ["names ''"]),
        ({"columns": "offset,offset"}, ["'offset' twice"]),
        ({"columns": "body", "bodyColumn": "value"}, ["'body'", "there are value"]),
        ({"columns": "properties"}, ["includeProperties=true"]),
    ],
)
def test_a_name_that_is_not_there_is_refused(given: dict[str, str], words: list[str]) -> None:
    with pytest.raises(OperatorError) as caught:
        parse_source({"queue": "q", **given})
    assert all(word in str(caught.value) for word in words)
