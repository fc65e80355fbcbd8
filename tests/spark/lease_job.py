"""A Spark query from a leased queue into Parquet files, in a process that can be killed.

`python -m tests.spark.lease_job URL FOLDER` runs until it is killed, and says "batch" after each.
"""

import sys
from typing import Any

from penstock.spark import register
from penstock.spark.java import find_java
from penstock.spark.session.session import open_session


def start(session: Any, url: str, folder: str, is_ending: bool) -> Any:
    """The query; with is_ending it ends when it has read what is there."""
    rows = (
        session.readStream.format("amqp")
        .option("url", url)
        .option("queue", "orders")
        .option("mode", "lease")
        .option("maxOffsetsPerTrigger", 100)
        .load()
        .selectExpr("string(body) AS body", "offset")
    )
    writer = (
        rows.writeStream.format("parquet")
        .option("path", f"{folder}/rows")
        .option("checkpointLocation", f"{folder}/state")
    )
    return (writer.trigger(availableNow=True) if is_ending else writer).start()


def main() -> None:
    """Run until killed."""
    with open_session(find_java()) as session:
        register(session)
        query = start(session, sys.argv[1], sys.argv[2], False)
        seen = -1
        while query.exception() is None:
            progress = query.lastProgress
            # Some may have ended between two looks.
            while progress is not None and progress.batchId > seen:
                seen += 1
                print("batch", flush=True)
            query.awaitTermination(0.05)
        raise query.exception()


if __name__ == "__main__":
    main()
