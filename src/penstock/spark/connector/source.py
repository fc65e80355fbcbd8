"""The data source `amqp` as PySpark wants it: a thin shell around planners and decoders.

    from penstock.spark import register
    register(spark)
    spark.readStream.format("amqp").option("queue", "orders").load()

Spark makes these objects anew in every process: in the planner, which lives as long as the query
and has the connection, and in the workers, which get a pickled copy. So nothing is opened before it
is needed, and what is open is never pickled. Readers and writers are imported where they are made:
a process that only says what is wrong with an option is there without numpy and Arrow.
"""

import os
from dataclasses import replace
from typing import ClassVar, Final

import pyspark
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
)
from pyspark.sql.types import StructType

from penstock.base.errors import OperatorError, PenstockError
from penstock.spark.connector.common.engines import (
    HAS_FILTERS,
    DataSourceStreamArrowWriter,
    NoReader,
    fitted,
)
from penstock.spark.connector.common.opening import CONNECTION_NAME, check_source, parse_and_find
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.plainly import plainly
from penstock.spark.connector.common.shape import Shape

ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
WAITS: Final = ("group",)
"""maxLagMessages and maxLagBytes are refused without it."""
NO_BATCH_READ: Final = (
    "spark.read cannot read the queue {queue!r}: reading takes messages away, and a batch query "
    "does not say when its result is safe, so nothing could be acknowledged without losing "
    "messages when a task or a job fails. Use spark.readStream with .trigger(availableNow=True): "
    "it reads what is there, acknowledges after your sink has committed, and ends. Streams can be "
    "read with spark.read"
)


@plainly
class AmqpDataSource(DataSource):
    """Registered as `amqp`. cores: what Spark has for tasks, 0 for those of this machine;
    application: its name, "" where it is not known. No process that makes these objects can ask
    Spark for them."""

    cores: ClassVar[int] = 0
    application: ClassVar[str] = ""

    @classmethod
    def name(cls) -> str:
        """What goes into `format(...)`."""
        return "amqp"

    def schema(self) -> str:
        """Columns of rows read. Raises: OperatorError for options that are wrong, ClientError for
        what the broker refuses; one that is away is no reason."""
        return shape_of(check_source(dict(self.options), CONNECTION_NAME, self.application)).ddl()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """For `spark.readStream`."""
        try:
            return self._stream_reader(schema)
        except PenstockError as error:
            return NoReader(error)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`. Raises: OperatorError, also for an ordinary queue."""
        options = self._parsed(is_patient=False)
        if options.mode != "stream":
            raise OperatorError(NO_BATCH_READ.format(queue=options.queue))
        self._refuse(WAITS, "spark.readStream", "spark.read, for which no stream waits")
        from penstock.spark.connector.stream.stream_source import StreamBatchReader

        shape = shape_of(options)
        check_schema(schema, shape)
        if options.wants_pushdown:
            if not HAS_FILTERS:
                raise OperatorError(
                    f"option filterPushdown needs Spark 4.1 or newer, and this is "
                    f"{pyspark.__version__}: leave it out"
                )
            # Imported here: older versions of Spark have no filters.
            from penstock.spark.connector.stream.filtering import FilteringBatchReader

            return FilteringBatchReader(options, shape)
        return StreamBatchReader(options, shape)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `df.write`. Raises: OperatorError; ClientError for what the broker refuses."""
        from penstock.spark.connector.sink.sink import BatchWriter, check_sink, make_sink

        options, plan = make_sink(dict(self.options), schema, overwrite, self.application)
        check_sink(options, plan)
        return BatchWriter(options, plan)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """For `df.writeStream`; Spark asks for one in every batch.

        Raises: OperatorError; ClientError for what the broker refuses."""
        from penstock.spark.connector.sink.sink import StreamWriter, check_query, make_sink

        options, plan = make_sink(dict(self.options), schema, overwrite, self.application)
        writer = StreamWriter(options, plan)
        check_query(options, plan)
        return writer

    def _stream_reader(self, schema: StructType) -> DataSourceStreamReader:
        """Raises: OperatorError, ClientError."""
        self._refuse(ENDS, "spark.read", "spark.readStream; trigger(availableNow=True) ends it")
        options = self._parsed(is_patient=True)
        shape = shape_of(options)
        check_schema(schema, shape)
        if options.mode == "stream":
            from penstock.spark.connector.stream.stream_source import StreamStreamReader

            return fitted(StreamStreamReader(options, shape))
        if options.mode == "lease":
            from penstock.spark.connector.lease.lease_source import LeaseStreamReader

            return fitted(LeaseStreamReader(options, shape))
        from penstock.spark.connector.queue.queue_source import QueueStreamReader

        return fitted(QueueStreamReader(options, shape))

    def _refuse(self, names: tuple[str, ...], fitting: str, this: str) -> None:
        """Raises: OperatorError for an option that would be ignored, and the user relied on it."""
        given = {name.lower() for name in self.options}
        for name in names:
            if name.lower() in given:
                raise OperatorError(f"option {name} is for {fitting}, and this is {this}")

    def _parsed(self, is_patient: bool) -> SourceOptions:
        """What is to be read, and by how many tasks. Raises: OperatorError, ClientError."""
        options = parse_and_find(dict(self.options), CONNECTION_NAME, is_patient, self.application)
        return replace(options, cores=self.cores or os.cpu_count() or 1)


def source_for(session_cores: int, session_application: str = "") -> type[AmqpDataSource]:
    """The source as a session registers it, which has so many cores for tasks, 0 where that is not
    known, and is called so.

    Python pickles a class that a function has made as a whole, and so with what it knows.
    """

    class SessionSource(AmqpDataSource):
        cores = session_cores
        application = session_application

    return SessionSource


def shape_of(options: SourceOptions) -> Shape:
    """Columns as the options want them."""
    return Shape(
        options.queue,
        options.body_column,
        options.has_properties,
        options.has_headers,
        options.has_flow,
        options.columns,
    )


def check_schema(given: StructType, shape: Shape) -> None:
    """Raises: OperatorError when the user gave a `.schema(...)` that is not this source's own."""
    expected = [f"{name} {_short(kind)}" for name, kind in shape.types().items()]
    columns = [
        f"{one.name} {_short(one.dataType.simpleString())}{'' if one.nullable else ' not null'}"
        for one in given.fields
    ]
    if columns != expected:
        raise OperatorError(
            f"the schema given has the columns {', '.join(columns)}; rows from AMQP have "
            f"{', '.join(expected)}. Leave .schema(...) out, and use cast on what was read"
        )


def _short(kind: str) -> str:
    return kind.lower().replace(" ", "")
