"""The command `penstock perf`: options in PerfTest's letters where it has them."""

import re
import sys
from typing import Final

import click

from penstock.base.errors import PenstockError
from penstock.client.url import parse_url
from penstock.perf.meter import STAMP_BYTES
from penstock.perf.plan import LoadPlan, queue_names
from penstock.perf.report import JsonReport, LoadReport, TextReport
from penstock.perf.run import LoadRun
from penstock.protocol.values import Table, Value

_UNITS: Final = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1 << 20, "mb": 1 << 20}
_SIZE: Final = re.compile(r"([0-9]{1,12})(|b|k|kb|m|mb)")
_BODY_BYTES_MAX: Final = 536_870_912
_MEMBERS: Final = click.IntRange(0, 10_000)
_COUNT: Final = click.IntRange(0)
HELP: Final = "help"
"""What -h without an address gives."""


class SizeRange(click.ParamType[tuple[int, int]]):
    """`1000`, `4k` or `100-4k`: a body size or a range of them."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Lowest and highest size in bytes. Fails in words for anything else."""
        if isinstance(value, tuple):
            return value
        low, dash, high = str(value).partition("-")
        try:
            lowest = _bytes(low)
            highest = _bytes(high) if dash else lowest
        except ValueError:
            self.fail(f"{value!r} is not a size such as 1000, 4k or 100-4k", param, ctx)
        if not STAMP_BYTES <= lowest <= highest <= _BODY_BYTES_MAX:
            self.fail(f"{value!r} must lie in {STAMP_BYTES}..{_BODY_BYTES_MAX} bytes", param, ctx)
        return lowest, highest


def _bytes(text: str) -> int:
    """A number with a unit, in bytes. Raises: ValueError for anything else."""
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError("a size is a number and perhaps a unit")
    return int(found[1]) * _UNITS[found[2]]


def _arguments(pairs: tuple[str, ...]) -> Table:
    """`x-max-length=10` and the like: numbers become integers, true and false booleans."""
    table: Table = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.UsageError(f"--queue-argument {pair!r} needs the form name=value")
        value: Value = text
        if text.lstrip("-").isdecimal():
            value = int(text)
        elif text in ("true", "false"):
            value = text == "true"
        table[name] = value
    return table


def _queues(
    names: tuple[str, ...], pattern: str | None, first: int, last: int | None
) -> tuple[str, ...]:
    if pattern is None:
        return names
    if last is None:
        raise click.UsageError("--queue-pattern needs --queue-pattern-to")
    return names + queue_names(pattern, first, last)


def _uri_or_help(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """PerfTest's -h takes an address; without one it means here what it means everywhere else."""
    if value == HELP:
        click.echo(ctx.get_help())
        ctx.exit()
    return value


@click.command("perf", context_settings={"show_default": True})
@click.option(
    "-h",
    "--uri",
    is_flag=False,
    flag_value=HELP,
    default="amqp://localhost",
    callback=_uri_or_help,
    help="The broker's address, as in PerfTest; -h alone is --help.",
)
@click.option("-x", "--producers", type=_MEMBERS, default=1, help="Publishers.")
@click.option("-y", "--consumers", type=_MEMBERS, default=1, help="Consumers.")
@click.option(
    "-s",
    "--size",
    type=SizeRange(),
    default=str(STAMP_BYTES),
    help="Body size in bytes, or a range such as 100-4k to draw from.",
)
@click.option(
    "-r",
    "--rate",
    type=click.FloatRange(0),
    default=0.0,
    help="Messages a second and publisher; 0: as fast as possible.",
)
@click.option(
    "-z",
    "--time",
    "duration",
    type=click.FloatRange(0),
    default=0.0,
    help="Seconds to run, after the warm-up; 0: no limit.",
)
@click.option(
    "-C",
    "--pmessages",
    type=_COUNT,
    default=0,
    help="Messages of each publisher; then every one of them must arrive.",
)
@click.option("-D", "--cmessages", type=_COUNT, default=0, help="Messages of each consumer.")
@click.option(
    "--warm-up",
    type=click.FloatRange(0),
    default=0.0,
    help="Seconds at the start left out of the summary.",
)
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=10.0,
    help="Seconds without progress at the end until what is missing counts as lost.",
)
@click.option(
    "-c",
    "--confirm",
    "confirms_max",
    type=_COUNT,
    default=0,
    help="Publishes that may be unconfirmed; 0: no confirms.",
)
@click.option(
    "-q",
    "--prefetch",
    "--qos",
    type=click.IntRange(0, 65_535),
    default=0,
    help="Unacknowledged deliveries a consumer may hold; 0: no bound.",
)
@click.option("-a", "--auto-ack", "--autoack", is_flag=True, help="Deliveries need no ack.")
@click.option(
    "-A",
    "--multi-ack-every",
    type=click.IntRange(1),
    default=1,
    help="Acknowledge this many deliveries at once.",
)
@click.option(
    "-f",
    "--flag",
    "flags",
    multiple=True,
    type=click.Choice(["persistent", "mandatory"]),
    help="How to publish; repeatable.",
)
@click.option("-u", "--queue", "queues", multiple=True, help="Queue to use; repeatable.")
@click.option("-qp", "--queue-pattern", help="Names of queues, such as perf-%d.")
@click.option("-qpf", "--queue-pattern-from", "first", type=_COUNT, default=1)
@click.option("-qpt", "--queue-pattern-to", "last", type=_COUNT, default=None)
@click.option(
    "-qa",
    "--queue-argument",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of the queues, such as x-max-length=1000; repeatable.",
)
@click.option("-e", "--exchange", help="Exchange; one that exists is used as it is.")
@click.option("-t", "--type", "exchange_type", default="direct", help="Type of the exchange.")
@click.option("-k", "--routing-key", help="Routing key; without it, the queues' names.")
@click.option("-p", "--predeclared", is_flag=True, help="Declare nothing, use what is there.")
@click.option(
    "--durable/--no-durable",
    default=None,
    help="Durable queues; without it, if publishing is persistent.",
)
@click.option(
    "-ad/-nad",
    "--auto-delete/--no-auto-delete",
    default=True,
    help="Queues go away with their last consumer.",
)
@click.option(
    "-R",
    "--consumer-rate",
    type=click.FloatRange(0),
    default=0.0,
    help="Messages a second each consumer can process; 0: no limit.",
)
@click.option(
    "-L",
    "--consumer-latency",
    type=_COUNT,
    default=0,
    help="Microseconds of pretended work for each message.",
)
@click.option("--seed", type=int, default=1, help="Of the chance that draws sizes.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Lines for people, or one JSON object a line.",
)
def command(
    uri: str, producers: int, consumers: int, size: tuple[int, int], rate: float,
    duration: float, pmessages: int, cmessages: int, warm_up: float, grace: float,
    confirms_max: int, prefetch: int, auto_ack: bool, multi_ack_every: int,
    flags: tuple[str, ...], queues: tuple[str, ...], queue_pattern: str | None, first: int,
    last: int | None, pairs: tuple[str, ...], exchange: str | None, exchange_type: str,
    routing_key: str | None, predeclared: bool, durable: bool | None, auto_delete: bool,
    consumer_rate: float, consumer_latency: int, seed: int, form: str,
) -> None:  # fmt: skip
    """Put a broker under load and measure it: rates, latencies, and how long publishers were held.

    Works with every AMQP 0-9-1 broker. A line a second, a summary at the end. With --rate,
    latency counts from the moment a message should have been sent, so that the time a publisher
    was held is part of it; the latency from the moment it left is shown beside it. "blocked" is
    the share of time a publisher could not send: its socket was full, or the broker raised an
    alarm.

    \b
    Exit status: 0 all went well; 1 the broker refused or closed something;
    2 wrong options; 4 messages were lost or never confirmed.
    """
    try:
        plan = LoadPlan(
            producers=producers, consumers=consumers, size_bytes_min=size[0],
            size_bytes_max=size[1], rate_per_s=rate, confirms_max=confirms_max,
            prefetch=prefetch, persistent="persistent" in flags,
            mandatory="mandatory" in flags, auto_ack=auto_ack, ack_every=multi_ack_every,
            queues=_queues(queues, queue_pattern, first, last), exchange=exchange,
            exchange_type=exchange_type, routing_key=routing_key,
            durable="persistent" in flags if durable is None else durable,
            auto_delete=auto_delete, predeclared=predeclared, queue_arguments=_arguments(pairs),
            duration_s=duration, messages_per_producer=pmessages,
            messages_per_consumer=cmessages, warm_up_s=warm_up, grace_s=grace,
            consumer_rate_per_s=consumer_rate, consumer_latency_us=consumer_latency, seed=seed,
        )  # fmt: skip
        report: LoadReport = JsonReport() if form == "json" else TextReport(plan)
        outcome = LoadRun(plan, parse_url(uri), report, click.echo).execute()
    except PenstockError as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.summary(outcome))
    sys.exit(outcome.exit_code())
