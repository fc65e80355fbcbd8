"""Commands that ask a running broker: why, status."""

import sys
from typing import Any, Final

import click

from penstock.base.printable import printable
from penstock.base.quantities import parse_duration_ns
from penstock.cli.asking import TABLE, RunningBroker, asking
from penstock.cli.numbers import WINDOW
from penstock.cli.tables import BOLD, FAINT, GREEN, RED, YELLOW, Screen, console, styled, wrapped
from penstock.explain.kinds import WHY_KINDS
from penstock.telemetry.words import amount, size

NS_PER_S = 1_000_000_000
LABELS: Final = {
    "because": RED,
    "other": FAINT,
    "same": YELLOW,
    "note": FAINT,
    "try": GREEN,
}
"""Of lines of `why`, by the word they begin with."""
ROOT: Final = "◀ root cause"
INDENT: Final = 11


@click.command()
@click.argument("kind", type=click.Choice(WHY_KINDS), default="publish")
@click.argument("name", default="")
@click.option(
    "--window", default=10.0, show_default=True, type=WINDOW, help="Look back this many seconds."
)
@click.option("--ago", default="0s", show_default=True, help="End so long ago, up to 10m.")
@asking
def why(kind: str, name: str, broker: RunningBroker, window: float, ago: str) -> None:
    """Why did this connection, channel, queue or consumer wait?

    NAME is what the client calls itself, or its address: web-7, web-7/1 for a channel, TAG or
    TAG@web-7 for a consumer. `publish` is the worst publisher, `memory` who holds it.

    Exit status: 0 not throttled, 2 nobody of that name, 3 throttled (blocked 5 % or more).
    """
    answer: Any = broker.ask(
        {
            "op": "why",
            "kind": kind,
            "name": name,
            "window_s": window,
            "ago_s": parse_duration_ns(ago) / NS_PER_S,
        },
    )
    if broker.form == TABLE:
        screen = console()
        for line in why_lines(str(answer["text"]), screen):
            screen.write(line)
    else:
        broker.print(answer["explanation"])
    sys.exit(int(str(answer["exit_status"])))


def why_lines(text: str, screen: Screen) -> list[str]:
    """An explanation as `screen` shows it: wrapped to a terminal, and with colour where there is
    any; elsewhere as it is."""
    if screen.width is None:
        return text.splitlines()
    found: list[str] = []
    for line in text.splitlines():
        label, rest = ("", line) if not line.startswith(" ") else _parted(line)
        indent = " " * (INDENT if label or line.startswith(" " * INDENT) else 1)
        parts = _fit(rest, screen.width - len(indent)) if label else _fit(line, screen.width)
        for index, part in enumerate(parts):
            before = f" {label}".ljust(INDENT) if index == 0 and label else indent
            shown = part if index == 0 and not label else before + part.strip()
            found.append(_coloured(shown, label, index, screen, is_head=not found))
    return found


def _parted(line: str) -> tuple[str, str]:
    """The label in the first columns, and what stands behind it; "" where there is none."""
    head = line[1:INDENT]
    word = head.partition(" ")[0]
    if word in LABELS and len(head.rstrip()) < INDENT - 1:
        return head.rstrip(), line[INDENT:]
    return "", line


def _fit(text: str, width: int) -> list[str]:
    """Columns stay as they are where the line fits."""
    if len(text) <= width:
        return [text]
    return wrapped(" ".join(text.split()), max(20, width - 1))


def _coloured(line: str, label: str, index: int, screen: Screen, is_head: bool) -> str:
    if not screen.has_colour:
        return line
    if is_head:
        return styled(line, BOLD)
    style = LABELS.get(label.partition(" ")[0], "")
    if style and index == 0:
        line = " " + styled(label, style) + line[1 + len(label) :]
    return line.replace(ROOT, styled(ROOT, RED))


@click.command()
@asking
def status(broker: RunningBroker) -> None:
    """How the broker is: version, profile, memory, alarms, what it holds, and when it syncs."""
    answer: Any = broker.ask({"op": "status"})
    if broker.form == TABLE:
        _show_status(answer)
    else:
        broker.print(answer)


VHOSTS_SHOWN: Final = 8


def _worker(row: dict[str, Any]) -> str:
    """row: a WorkerRow."""
    if not row["is_serving"]:
        return f"pid {row['pid']} starts, or has ended and is started again"
    vhosts = row["vhosts"]
    named = ", ".join(vhosts[:VHOSTS_SHOWN]) or "none yet"
    more = f" and {len(vhosts) - VHOSTS_SHOWN} more" if len(vhosts) > VHOSTS_SHOWN else ""
    return f"pid {row['pid']}, {size(row['memory_bytes'])}, virtual hosts: {named}{more}"


def _show_status(answer: dict[str, Any]) -> None:
    """answer: a Status (broker/admin/answers)."""
    states, queues = answer["connections"], answer["queues"]
    held = ", ".join(f"{amount(count)} {state}" for state, count in sorted(states.items()))
    memory, mark = size(answer["memory_bytes"]), size(answer["memory_high_bytes"])
    lines = [
        ("version", f"penstock {answer['version']}, {answer['build']}"),
        ("profile", answer["profile"]),
        ("memory", f"{memory}, alarm above {mark}"),
        ("connections", f"{amount(sum(states.values()))}" + (f": {held}" if held else "")),
        (
            "queues",
            f"{amount(queues['count'])}, {amount(queues['messages_ready'])} messages ready, "
            f"{amount(queues['messages_unacknowledged'])} unacknowledged",
        ),
        ("sync", answer["sync"] or "nothing is kept on disk"),
    ]
    lines += [(f"worker {one['worker']}", _worker(one)) for one in answer.get("workers", ())]
    lines += [("alarm", f"{name}: {text}") for name, text in answer["alarms"].items()]
    if answer["certificate"]:
        lines.append(("tls", answer["certificate"]))
    if answer["failure"]:
        lines.append(("failure", answer["failure"]))
    screen = console()
    for name, said in lines:
        text = printable(said)
        width = max(20, (screen.width or len(text) + 13) - 13)
        first, *rest = wrapped(text, width) if len(text) > width else [text]
        label = name.ljust(12)
        if screen.has_colour:
            label = styled(label, RED if name in ("alarm", "failure") else FAINT)
        screen.write(f"{label} {first}")
        for line in rest:
            screen.write(f"{'':12} {line}")
