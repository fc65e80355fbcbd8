"""Messages of a running broker, one by one: published into a queue, taken out, looked at."""

import sys
from typing import Any, Final

import click

from penstock.cli.asking import TABLE, RunningBroker, asking, print_rows
from penstock.cli.objects import WHERE, arguments_of, place_of
from penstock.cli.tables import columns, console, say, show, table
from penstock.cli.way import DEFAULT, payload
from penstock.telemetry.words import amount, size

MESSAGE_COLUMNS: Final = columns(
    "EXCHANGE:name:4 KEY:name AGAIN::3 SIZE:number PROPERTIES:prose:2 BODY:prose"
)


def publish_to(
    broker: RunningBroker,
    where: tuple[str, str, str],
    body: str,
    persistent: bool,
    properties: tuple[str, ...],
    headers: tuple[str, ...],
) -> None:
    """where: virtual host, exchange and routing key; body: "-" for standard input."""
    vhost, exchange, key = where
    data = sys.stdin.buffer.read() if body == "-" else body.encode(errors="surrogateescape")
    given: dict[str, Any] = {"delivery_mode": 2 if persistent else 1} | arguments_of(properties)
    if headers:
        given["headers"] = arguments_of(headers)
    broker.change(
        {
            "op": "exchanges",
            "do": "publish",
            "vhost": vhost,
            "exchange": "" if exchange == DEFAULT else exchange,
            "routing_key": key,
            "payload": payload(data),
            "properties": given,
        }
    )


COUNT: Final = click.option(
    "--count", "-n", default=1, show_default=True, type=click.IntRange(1, 10_000)
)


@click.command()
@click.argument("name")
@COUNT
@WHERE
@asking
def get(name: str, count: int, vhost: str, broker: RunningBroker) -> None:
    """Take the first messages out of NAME, and print them. They are gone then; see peek."""
    _get(broker, name, vhost, count, False)


@click.command()
@click.argument("name")
@COUNT
@WHERE
@asking
def peek(name: str, count: int, vhost: str, broker: RunningBroker) -> None:
    """Print the first messages of NAME, and leave them in it; they count as delivered once."""
    _get(broker, name, vhost, count, True)


MOVED_AT_ONCE: Final = 10_000
"""Messages of one request: a script that is ended has moved what the last one has."""


@click.command()
@click.argument("name")
@click.argument("to", default="")
@click.option("--exchange", "-x", default="", help="Into this exchange, instead of a queue TO.")
@click.option(
    "--routing-key", "-k", default=None, help="There, by this key instead of each message's own."
)
@click.option("--count", "-n", default=None, type=click.IntRange(1), help="Only so many.")
@WHERE
@asking
def move(
    name: str,
    to: str,
    exchange: str,
    routing_key: str | None,
    count: int | None,
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Move the ready messages of NAME to the queue TO of its virtual host, or into an exchange.

    Those that are there when it begins, the first ones first. A message leaves NAME when it is
    confirmed where it goes: nothing is lost, whatever happens meanwhile."""
    if (to == "") == (exchange == ""):
        raise click.UsageError("say where to: a queue, or --exchange")
    if to and routing_key is not None:
        raise click.UsageError("--routing-key is for --exchange; the queue TO is enough")
    vhost, bare = place_of(broker, name, vhost)
    if to:
        _, routing_key = place_of(broker, to, vhost)
    question: dict[str, object] = {"op": "queues", "do": "move", "vhost": vhost, "name": bare}
    question |= {"exchange": exchange, "routing_key": routing_key}
    moved, left = 0, count
    while left is None or left > 0:
        answer = broker.do(question | {"count": min(left or MOVED_AT_ONCE, MOVED_AT_ONCE)})
        done, rest, found = (int(str(answer[key])) for key in ("moved", "left", "found"))
        moved += done
        # What comes while it goes on is not moved: it may be what was moved, coming back.
        left = min((found if left is None else left) - done, rest)
        if done == 0:
            break
    where = f"exchange '{exchange}'" if exchange else f"queue '{routing_key}'"
    what = "1 message of" if moved == 1 else f"{amount(moved)} messages of"
    verb = "is" if moved == 1 else "are"
    said = f"{what} queue '{bare}' in vhost '{vhost}' {verb} moved to {where}"
    broker.say({"said": said, "moved": moved})


def _get(broker: RunningBroker, name: str, vhost: str, count: int, is_peek: bool) -> None:
    vhost, bare = place_of(broker, name, vhost)
    question: dict[str, object] = {"op": "queues", "do": "get", "vhost": vhost, "name": bare}
    answer = broker.do(question | {"count": count, "requeue": is_peek})
    rows: Any = answer["messages"]
    if broker.form == "json":
        broker.print(answer)
        return
    if broker.form != TABLE:
        print_rows(rows, [key for row in rows for key in row])
        return
    screen = console()
    if not rows:
        say(screen, f"queue '{bare}' in vhost '{vhost}' has no message that is ready")
        return
    cells = [
        [
            str(row["exchange"]) or "amq.default",
            str(row["routing_key"]),
            "yes" if row["redelivered"] else "",
            size(int(row["payload_bytes"])),
            ", ".join(f"{key} {value}" for key, value in row["properties"].items()),
            str(row["payload"]) if row["payload_encoding"] == "string" else "(not text)",
        ]
        for row in rows
    ]
    show(screen, table(MESSAGE_COLUMNS, cells))
    left = int(rows[-1]["message_count"])
    say(screen, f"{amount(left)} more" if left else "no more")


@click.command()
@click.argument("name")
@click.argument("body", default="-")
@click.option("--persistent/--transient", default=True, show_default=True, help="Kept on disk.")
@click.option(
    "--property", "-p", "properties", multiple=True, metavar="KEY=VALUE", help="A property."
)
@click.option("--header", "-H", "headers", multiple=True, metavar="KEY=VALUE", help="A header.")
@WHERE
@asking
def publish(
    name: str,
    body: str,
    persistent: bool,
    properties: tuple[str, ...],
    headers: tuple[str, ...],
    vhost: str,
    broker: RunningBroker,
) -> None:
    """Publish BODY, or what comes on standard input, into the queue NAME."""
    vhost, bare = place_of(broker, name, vhost)
    publish_to(broker, (vhost, "", bare), body, persistent, properties, headers)
