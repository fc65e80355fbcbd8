"""The data source `deltatable`: Delta tables as streams in and out, without jars.

rows.writeStream.format("deltatable").option("path", …)
spark.readStream.schema(…).format("deltatable").option("path", …).load()
"""

import json
from pathlib import Path
from typing import Final

import deltalake
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.engines import NoReader
from penstock.spark.connector.common.option_values import Option, Values
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.tables.delta_sink import DeltaWriter
from penstock.spark.tables.delta_source import FILES_MOST, DeltaStreamReader
from penstock.spark.tables.files import check_place

SINK_OPTIONS: Final = tuple(map(Option, ("path", "appId", "checkpointLocation", "queryName")))
SOURCE_OPTIONS: Final = tuple(map(Option, ("path", "maxFilesPerTrigger")))


@plainly
class DeltaTables(DataSource):
    """Registered as `deltatable`."""

    @classmethod
    def name(cls) -> str:
        """What goes into `format(...)`."""
        return "deltatable"

    def schema(self) -> StructType:
        """Of a table that is there. Raises: OperatorError."""
        path = _path(Values(dict(self.options), SOURCE_OPTIONS, "reading a Delta table"))
        if not deltalake.DeltaTable.is_deltatable(path):
            raise OperatorError(
                f"there is no Delta table {path} yet; give its columns with .schema(...), and the "
                "query waits for it"
            )
        return StructType.fromJson(json.loads(deltalake.DeltaTable(path).schema().to_json()))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        try:
            values = Values(dict(self.options), SOURCE_OPTIONS, "reading a Delta table")
            files = values.number("maxFilesPerTrigger", 1, 1_000_000, FILES_MOST)
            return DeltaStreamReader(_path(values), schema, files)
        except OperatorError as error:
            return NoReader(error)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For `df.writeStream`. Raises: OperatorError."""
        values = Values(dict(self.options), SINK_OPTIONS, "writing a Delta table")
        if overwrite:
            raise OperatorError("a Delta table is appended to; use outputMode append")
        return DeltaWriter(_path(values), values.text("appId"), schema)


def _path(values: Values) -> str:
    path = values.text("path")
    if not path:
        raise OperatorError("option path is missing: the directory of the Delta table")
    path = path.removeprefix("file:")
    check_place(Path(path), "path")
    return path
