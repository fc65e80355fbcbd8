"""The command `penstock perf`: options in PerfTest's letters where it has them."""

import re
import sys
from typing import Any, Final

import click

from penstock.base.errors import OperatorError, PenstockError
from penstock.client.url import parse_url
from penstock.perf.meter import STAMP_BYTES
from penstock.perf.plan import LoadPlan, queue_names
from penstock.perf.report import JsonReport, LoadReport, TextReport
from penstock.perf.run import LoadRun
from penstock.protocol.values import Table, Value

_UNITS: Final = {"": 1, "b": 1, "k": 1024, "kb": 1024, "m": 1 << 20, "mb": 1 << 20}
_SIZE: Final = re.compile(r"([0-9]{1,12})(|b|k|kb|m|mb)")
_INTEGER: Final = re.compile(r"-?[0-9]+")
_DIGITS_LOOKED_AT: Final = 24
"""Of a number; one that has as many is too large already."""
_BODY_BYTES_MAX: Final = 536_870_912
_MEMBERS: Final = click.IntRange(0, 10_000)
_COUNT: Final = click.IntRange(0)
_REAL: Final = click.FloatRange(0, 10**9)
"""Seconds, or messages a second."""
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
        if _INTEGER.fullmatch(text):
            value = _integer(name, text)
        elif text in ("true", "false"):
            value = text == "true"
        table[name] = value
    return table


def _integer(name: str, text: str) -> int:
    value = int(text[:_DIGITS_LOOKED_AT])
    if not -(1 << 63) <= value < 1 << 63:
        raise click.UsageError(
            f"--queue-argument {name[:40]}: {text[:40]} is more than a field of AMQP holds; whole "
            f"numbers lie in {-(1 << 63)}..{(1 << 63) - 1}"
        )
    return value


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


def _option(names: str, text: str | None, default: object = None, **more: Any) -> click.Option:
    """names: its letters, and last the field of LoadPlan that it fills."""
    return click.Option(names.split(), help=text, default=default, **more)


OPTIONS: Final[list[click.Parameter]] = [
    click.Option(
        ("-h", "--uri"),
        is_flag=False,
        flag_value=HELP,
        default="amqp://localhost",
        callback=_uri_or_help,
        help="The broker's address, as in PerfTest; -h alone is --help.",
    ),
    _option("-x --producers", "Publishers.", 1, type=_MEMBERS),
    _option("-y --consumers", "Consumers.", 1, type=_MEMBERS),
    _option(
        "-s --size",
        "Body size in bytes, or a range such as 100-4k to draw from.",
        str(STAMP_BYTES),
        type=SizeRange(),
    ),
    _option(
        "-r --rate rate_per_s",
        "Messages a second and publisher; 0: as fast as possible.",
        0.0,
        type=_REAL,
    ),
    _option(
        "-z --time duration_s", "Seconds to run, after the warm-up; 0: no limit.", 0.0, type=_REAL
    ),
    _option(
        "-C --pmessages messages_per_producer",
        "Messages of each publisher; then every one of them must arrive.",
        0,
        type=_COUNT,
    ),
    _option("-D --cmessages messages_per_consumer", "Messages of each consumer.", 0, type=_COUNT),
    _option(
        "--warm-up warm_up_s", "Seconds at the start left out of the summary.", 0.0, type=_REAL
    ),
    _option(
        "--grace grace_s",
        "Seconds without progress at the end until what is missing counts as lost.",
        10.0,
        type=_REAL,
    ),
    _option(
        "-c --confirm confirms_max",
        "Publishes that may be unconfirmed; 0: no confirms.",
        0,
        type=_COUNT,
    ),
    _option(
        "-q --prefetch --qos prefetch",
        "Unacknowledged deliveries a consumer may hold; 0: no bound.",
        0,
        type=click.IntRange(0, 65535),
    ),
    _option("-a --auto-ack --autoack auto_ack", "Deliveries need no ack.", False, is_flag=True),
    _option(
        "-A --multi-ack-every ack_every",
        "Acknowledge this many deliveries at once.",
        1,
        type=click.IntRange(1),
    ),
    _option(
        "-f --flag flags",
        "How to publish; repeatable.",
        multiple=True,
        type=click.Choice(["persistent", "mandatory"]),
    ),
    _option("-u --queue queues", "Queue to use; repeatable.", multiple=True),
    _option("-qp --queue-pattern", "Names of queues, such as perf-%d."),
    _option("-qpf --queue-pattern-from first", None, 1, type=_COUNT),
    _option("-qpt --queue-pattern-to last", None, type=_COUNT),
    _option(
        "-qa --queue-argument pairs",
        "Argument of the queues, such as x-max-length=1000; repeatable.",
        multiple=True,
        metavar="NAME=VALUE",
    ),
    _option("-e --exchange", "Exchange; one that exists is used as it is."),
    _option("-t --type exchange_type", "Type of the exchange.", "direct"),
    _option("-k --routing-key", "Routing key; without it, the queues' names."),
    _option("-p --predeclared", "Declare nothing, use what is there.", False, is_flag=True),
    _option(
        "--durable/--no-durable",
        "Durable queues; without it, if publishing is persistent.",
        is_flag=True,
    ),
    _option(
        "-ad/-nad --auto-delete/--no-auto-delete",
        "Queues go away with their last consumer.",
        True,
        is_flag=True,
    ),
    _option(
        "-R --consumer-rate consumer_rate_per_s",
        "Messages a second each consumer can process; 0: no limit.",
        0.0,
        type=_REAL,
    ),
    _option(
        "-L --consumer-latency consumer_latency_us",
        "Microseconds of pretended work for each message.",
        0,
        type=_COUNT,
    ),
    _option("--seed", "Of the chance that draws sizes.", 1, type=click.INT),
    _option(
        "--format form",
        "Lines for people, or one JSON object a line.",
        "text",
        type=click.Choice(["text", "json"]),
    ),
]
"""In the order of the help text."""


@click.command("perf", context_settings={"show_default": True}, params=OPTIONS)
def command(
    uri: str, size: tuple[int, int], flags: tuple[str, ...], queues: tuple[str, ...],
    queue_pattern: str | None, first: int, last: int | None, pairs: tuple[str, ...],
    durable: bool | None, form: str, **plan_fields: Any,
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
            size_bytes_min=size[0],
            size_bytes_max=size[1],
            persistent="persistent" in flags,
            mandatory="mandatory" in flags,
            queues=_queues(queues, queue_pattern, first, last),
            durable="persistent" in flags if durable is None else durable,
            queue_arguments=_arguments(pairs),
            **plan_fields,
        )
        report: LoadReport = JsonReport() if form == "json" else TextReport(plan)
        outcome = LoadRun(plan, parse_url(uri), report, click.echo).execute()
    except OperatorError as error:
        raise click.UsageError(str(error)) from error
    except PenstockError as error:
        raise click.ClickException(str(error)) from error
    click.echo(report.summary(outcome))
    sys.exit(outcome.exit_code())
