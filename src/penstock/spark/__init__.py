"""The data pipeline over flow events and message traces, and the Spark data source `amqp`.

In it: bronze, silver and gold tables, root causes, the report of a run, the connector.
Enters: event files or the telemetry stream, trace files; messages of queues and streams.
Leaves: tables, one HTML page, summary.json; rows for Spark, and confirmed messages from it.
Begin with: job/pipeline, or connector/source.
"""

from penstock.spark.register import register as register
