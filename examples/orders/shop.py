"""The shop and its accountant, two ordinary programs with pika that know nothing of Spark.

python shop.py open              make exchanges, queues and the stream
python shop.py sell 1000         publish orders; --form 2: as the shop's next release does
python shop.py bill FILE         the accountant: write one line for each invoice
python shop.py dead              what is in the dead letter queue, by reason
"""

import argparse
import json
import os
import secrets
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pika

URL = os.environ.get("ORDERS_URL", "amqp://guest:guest@127.0.0.1:5672")
KEPT = pika.BasicProperties(delivery_mode=2, content_type="application/json")
WAITING_MOST = 1000
"""Orders that may wait in the queue; then publishers wait."""
ITEMS = (("tea", 4.5), ("coffee", 7.9), ("cup", 12.0))
CURRENCIES = ("EUR", "EUR", "CHF", "EUR", "BTC")
BILLED = ("EUR", "CHF")
BAD_EVERY = 20
IDLE_S = 3.0


def main() -> None:
    """One of the four."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(required=True)
    commands.add_parser("open").set_defaults(run=open_shop)
    sell = commands.add_parser("sell")
    sell.add_argument("count", type=int)
    sell.add_argument("--form", type=int, choices=(1, 2), default=1)
    sell.set_defaults(run=sell_orders)
    bill = commands.add_parser("bill")
    bill.add_argument("file", type=Path)
    bill.add_argument("--idle", type=float, default=IDLE_S)
    bill.set_defaults(run=bill_orders)
    commands.add_parser("dead").set_defaults(run=show_dead)
    given = parser.parse_args()
    where = pika.URLParameters(URL)
    # The broker may be about to start.
    where.connection_attempts, where.retry_delay = 40, 0.5
    where.client_properties = {"connection_name": f"shop-{given.run.__name__.partition('_')[0]}"}
    with pika.BlockingConnection(where) as connection:
        given.run(connection.channel(), given)


def open_shop(channel: Any, given: argparse.Namespace) -> None:
    """Orders go to a queue, which is worked off once, and to a stream, which keeps them. Whatever
    is refused, by Spark or by the accountant, ends in `dead`."""
    channel.exchange_declare("shop", "topic", durable=True)
    full = {"x-max-length": WAITING_MOST, "x-overflow": "backpressure"}
    channel.queue_declare("orders", durable=True, arguments=full)
    channel.queue_bind("orders", "shop", "order.#")
    channel.queue_declare("orders.log", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("orders.log", "shop", "order.#")
    channel.exchange_declare("invoices", "topic", durable=True)
    channel.queue_declare(
        "invoices", durable=True, arguments={"x-dead-letter-exchange": "shop.dead"}
    )
    channel.queue_bind("invoices", "invoices", "#")
    channel.exchange_declare("shop.dead", "fanout", durable=True)
    channel.queue_declare("dead", durable=True)
    channel.queue_bind("dead", "shop.dead")
    print("the shop is open")


def sell_orders(channel: Any, given: argparse.Namespace) -> None:
    """Each is confirmed before the next one is sent: what was printed is on the broker's disk."""
    channel.confirm_delivery()
    run = secrets.token_hex(4)
    began = time.monotonic()
    for number in range(given.count):
        body = bad(run, number) if number % BAD_EVERY == 7 else good(run, number, given.form)
        channel.basic_publish("shop", f"order.{number % 4}", body, KEPT, mandatory=True)
    print(f"sold {given.count} orders in {time.monotonic() - began:.1f} s, all confirmed")


def good(run: str, number: int, form: int) -> bytes:
    """An order. Form 2 is another team's idea of the same."""
    item, price = ITEMS[number % len(ITEMS)]
    order: dict[str, Any] = {
        "order": f"{run}-{number}",
        "at": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "customer": f"c{number % 50}",
        "item": item,
        "quantity": 1 + number % 3,
        "price": price,
        "currency": CURRENCIES[number % len(CURRENCIES)],
    }
    if form == 2:
        order["customer"] = {"id": order["customer"], "country": "DE"}
        order["price"] = f"{price:.2f}"
        order["discount"] = 0.1
        order["coupon"] = "SPRING"
    return json.dumps(order).encode()


def bad(run: str, number: int) -> bytes:
    """One of five ways in which orders go wrong."""
    order = json.loads(good(run, number, 1))
    match number // BAD_EVERY % 5:
        case 0:
            return json.dumps(order).encode()[:-9]
        case 1:
            del order["order"]
        case 2:
            order["quantity"] = "many"
        case 3:
            order["price"] = -1
        case _:
            order["at"] = "yesterday"
    return json.dumps(order).encode()


def bill_orders(channel: Any, given: argparse.Namespace) -> None:
    """Until there was no invoice for so many seconds, and none waits. A line is on the disk before
    its invoice is acknowledged; what the accountant cannot bill is rejected, and so becomes a dead
    letter."""
    channel.basic_qos(prefetch_count=100)
    billed = refused = 0
    with given.file.open("a", encoding="utf-8") as book:
        for method, _, body in channel.consume("invoices", inactivity_timeout=given.idle):
            if method is None:
                if waiting(channel, "invoices") == 0:
                    break
                continue
            invoice = json.loads(body)
            if invoice["currency"] not in BILLED:
                channel.basic_reject(method.delivery_tag, requeue=False)
                refused += 1
                continue
            book.write(f"{invoice['order']} {invoice['amount']} {invoice['currency']}\n")
            book.flush()
            os.fsync(book.fileno())
            channel.basic_ack(method.delivery_tag)
            billed += 1
    print(f"billed {billed} invoices, refused {refused}")


def waiting(channel: Any, queue: str) -> int:
    """How many messages are ready in `queue`."""
    count: int = channel.queue_declare(queue, passive=True).method.message_count
    return count


def show_dead(channel: Any, given: argparse.Namespace) -> None:
    """Looks only: what is not acknowledged goes back."""
    reasons = Counter[str]()
    for _ in range(waiting(channel, "dead")):
        method, properties, _ = channel.basic_get("dead")
        if method is None:
            # Somebody else has taken it.
            break
        headers = properties.headers or {}
        refused = "x-death" in headers
        reasons["refused by the accountant" if refused else headers["x-reason"]] += 1
    for why, count in sorted(reasons.items()):
        print(f"{count:6} {why}")
    print(f"{reasons.total():6} dead letters")


if __name__ == "__main__":
    main()
