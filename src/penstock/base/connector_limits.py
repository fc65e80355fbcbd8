"""The bounds of what Spark's source and sink hold; part of the table in base/limits."""

from typing import Final

from penstock.base.limit import Limit

CONNECTOR_PREFETCH: Final = Limit(
    "connector_prefetch",
    "messages of a queue that a Spark query has not acknowledged",
    20_000,
    1,
    65_535,
    "spark/connector/common/options",
    "the broker delivers nothing more to the query until a batch is committed",
)
CONNECTOR_BUFFERED_BYTES: Final = Limit(
    "connector_buffered_bytes",
    "bytes of deliveries in the driver of a Spark query",
    67_108_864,
    65_536,
    1_099_511_627_776,
    "spark/connector/queue/feed",
    "the query's consumer is cancelled until half of them are committed",
)
CONNECTOR_IN_FLIGHT: Final = Limit(
    "connector_in_flight",
    "unconfirmed publishes of a Spark task",
    1000,
    1,
    65_535,
    "spark/connector/sink/publisher",
    "the task waits for confirms",
)
CONNECTOR_TASK_BYTES: Final = Limit(
    "connector_task_bytes",
    "bytes of deliveries that a Spark task is sent",
    16_777_216,
    16_777_216,
    16_777_216,
    "spark/connector/queue/queue_plan",
    "the batch is divided into more tasks",
)
CONNECTOR_QUEUES: Final = Limit(
    "connector_queues",
    "queues that one Spark query reads, each over a connection of its own",
    64,
    64,
    64,
    "spark/connector/common/options",
    "the query is refused",
)
CONNECTOR_STAGED_BYTES: Final = Limit(
    "connector_staged_bytes",
    "bytes that a Spark task reserves for the rows it stages",
    16_777_216,
    1024,
    67_108_864,
    "spark/connector/common/delivery",
    "the task fails and names maxStagedBytes",
)
