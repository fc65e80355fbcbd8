"""Holds a run of the declared pipeline before its end, at a queue for dead letters that is full.

    python -m tests.spark.held_orders hold       make it
    python -m tests.spark.held_orders wait       until invoices are out
    python -m tests.spark.held_orders release    delete it
The broker is that of ORDERS_URL.
"""

import os
import sys
import time

from penstock.client.io_blocking import connect
from penstock.protocol.values import Table

FULL: Table = {"x-max-length": 1, "x-overflow": "backpressure"}
RUN_S_MAX = 300


def main(verb: str) -> None:
    with connect(os.environ["ORDERS_URL"]) as connection:
        channel = connection.channel()
        if verb == "hold":
            channel.declare_queue("held", durable=True, arguments=FULL)
            channel.bind_queue("held", "shop.dead", "")
            channel.publish("", "held", b"")
        elif verb == "release":
            channel.delete_queue("held")
        else:
            end_s = time.monotonic() + RUN_S_MAX
            while channel.declare_queue("invoices", passive=True).message_count == 0:
                assert time.monotonic() < end_s, f"no invoice within {RUN_S_MAX} s"
                time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1])
