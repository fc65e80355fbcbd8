"""A client of a Spark Connect server, which has no Java of its own.

    python -m tests.spark.connect_job SERVER URL SOURCE QUEUE TARGET FOLDER
reads the stream SOURCE and the queue QUEUE into the stream TARGET, exactly once, and prints one
line of JSON: how many rows a batch read of SOURCE has.
"""

import json
import sys

from pyspark.sql import SparkSession

from penstock.spark import register


def main(server: str, url: str, source: str, queue: str, target: str, folder: str) -> None:
    spark = SparkSession.builder.remote(server).getOrCreate()
    register(spark)
    for name in (source, queue):
        reader = spark.readStream.format("amqp").options(url=url, queue=name)
        if name == source:
            reader = reader.option("startingOffsets", "earliest")
        writer = reader.option("maxOffsetsPerTrigger", 200).load().select("body").writeStream
        writer = writer.format("amqp").options(url=url, routingKey=target)
        writer = writer.options(delivery="exactly-once", checkpointLocation=f"{folder}/{name}")
        query = writer.queryName(f"from {name}").trigger(availableNow=True).start()
        query.awaitTermination()
    count = spark.read.format("amqp").options(url=url, queue=source).load().count()
    print(json.dumps({"count": count}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
