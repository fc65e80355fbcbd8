"""The schema of rows is looked at on the driver, down to the fields of `properties`."""

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    NullType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.shape import PROPERTY_FIELDS
from penstock.spark.connector.sink.sink import make_sink


@pytest.mark.parametrize(
    ("name", "kind"),
    [("priority", StringType()), ("message_id", LongType()), ("timestamp", LongType())],
)
def test_a_property_of_the_wrong_type_is_refused_at_the_driver(name: str, kind: DataType) -> None:
    struct = StructType().add("content_type", StringType()).add(name, kind)
    schema = StructType().add("body", BinaryType()).add("properties", struct)
    words = f"column properties.{name} is {kind.simpleString()}, and has to be"
    with pytest.raises(OperatorError, match=words):
        make_sink({"routingKey": "q"}, schema, False)


def test_properties_as_the_source_makes_them_are_taken() -> None:
    kinds = {"STRING": StringType(), "INT": IntegerType(), "TIMESTAMP": TimestampType()}
    struct = StructType()
    for name, kind in PROPERTY_FIELDS:
        struct = struct.add(name, kinds[kind])
    schema = StructType().add("body", BinaryType()).add("properties", struct)
    assert make_sink({"routingKey": "q"}, schema, False)[1].struct == 1
    nothing = StructType().add("priority", NullType())
    schema = StructType().add("body", BinaryType()).add("properties", nothing)
    assert make_sink({"routingKey": "q"}, schema, False)[1].struct == 1


def test_columns_of_one_name_are_refused() -> None:
    """Those behind them would be taken for others."""
    schema = StructType().add("body", BinaryType())
    for name in ("a", "a", "routing_key"):
        schema = schema.add(name, StringType())
    with pytest.raises(OperatorError, match="the rows have a more than once"):
        make_sink({"ignoreUnknownColumns": "true"}, schema, False)
