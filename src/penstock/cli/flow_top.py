"""`penstock flow top`: one frame on paper, or a live screen with three keys.

The keyboard is read only when standard input is a terminal, in its one-key mode, which is given
back however the screen ends.
"""

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from penstock.base.errors import OperatorError
from penstock.broker.admin.flow_top import SORTS, ConsumerRow, Frame, PublisherRow, TopQueue
from penstock.cli.tables import FAINT, RED, Cell, columns, console, show, table
from penstock.server.control.control_client import ask
from penstock.telemetry.words import amount, duration, percent, rate, size

BAR_CELLS = 8
NS_PER_MS = 1_000_000
PUBLISHER_COLUMNS = columns(
    "PUBLISHERS:name rate:number blocked:number ________ longest:number cause:name"
)
QUEUE_COLUMNS = columns(
    "QUEUES:name ready:number unacked:number in:number out:number busy:number blocked:number "
    "waiting:number cause:name"
)
CONSUMER_COLUMNS = columns(
    "CONSUMERS:name tag:name queue:name out:number window:number ack:number held:number"
)


@dataclass(frozen=True, slots=True)
class TopOptions:
    """path: the control socket; request: what is asked; interval_s: between two frames."""

    path: str
    request: dict[str, object]
    interval_s: float
    is_once: bool


def run_top(options: TopOptions) -> None:
    """Until q or Ctrl-C, or one frame. Raises: OperatorError when no broker answers at first."""
    screen = console()
    first = _fetch(options.path, options.request)
    if options.is_once or not screen.is_terminal or not sys.stdin.isatty():
        show(screen, draw(first, str(options.request["sort"]), ""))
        return
    with _one_key_mode():
        try:
            _live(options, screen, first)
        except KeyboardInterrupt:
            return


def _live(options: TopOptions, screen: Console, first: Frame) -> None:
    request = dict(options.request)
    frame, note, is_frozen = first, "", False
    with Live(console=screen, screen=True, auto_refresh=False) as live:
        while True:
            live.update(draw(frame, str(request["sort"]), note, is_live=True), refresh=True)
            key = _key(options.interval_s)
            if key == "q":
                return
            if key == "s":
                at = SORTS.index(str(request["sort"]))
                request["sort"] = SORTS[(at + 1) % len(SORTS)]
            elif key == "f":
                is_frozen = not is_frozen
            note = "frozen; f goes on" if is_frozen else ""
            if not is_frozen:
                try:
                    frame = _fetch(options.path, request)
                except OperatorError as error:
                    note = f"no answer: {error}"


def _fetch(path: str, request: dict[str, object]) -> Frame:
    return msgspec.convert(ask(path, request), Frame)


def _key(wait_s: float) -> str:
    """The next key within `wait_s` seconds, "" if none came; others than ours are passed over."""
    end = time.monotonic() + wait_s
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            # Not through the buffered stream, which would keep a second key from `select`.
            key = os.read(sys.stdin.fileno(), 1).decode("ascii", "replace").lower()
            if key in ("q", "s", "f"):
                return key
            if key == "":
                return "q"
    return ""


@contextmanager
def _one_key_mode() -> Iterator[None]:
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


# -- drawing -------------------------------------------------------------------------------------


def draw(frame: Frame, sort: str, note: str, is_live: bool = False) -> RenderableType:
    """One frame. note: what stands at the bottom besides the keys."""
    parts: list[RenderableType] = [_head(frame), Text("")]
    if frame.window_s == 0:
        parts.append(Text("nothing is measured yet; ask again in a second", FAINT))
    parts += [
        table(PUBLISHER_COLUMNS, [_publisher(row) for row in frame.publishers]),
        *_more(frame.publishers_more, "publishers"),
        Text(""),
        table(QUEUE_COLUMNS, [_queue(row) for row in frame.queues]),
        *_more(frame.queues_more, "queues"),
        Text(""),
        table(CONSUMER_COLUMNS, [_consumer(row) for row in frame.consumers]),
        *_more(frame.consumers_more, "consumers"),
    ]
    if is_live:
        parts.append(Text(f"\ns sort ({sort})   f freeze   q quit   {note}", FAINT))
    return Group(*parts)


def bar(share: float) -> str:
    """`▇▇▇▇▇░░░` for 0.61; nothing below one percent."""
    if share < 0.01:
        return ""
    full = min(BAR_CELLS, max(1, round(share * BAR_CELLS)))
    return "▇" * full + "░" * (BAR_CELLS - full)


def _head(frame: Frame) -> Text:
    head = Text("penstock top", "bold")
    head.append(
        f" — profile {frame.profile}  up {duration(round(frame.uptime_s) * 1_000_000_000)}   "
        f"in {rate(frame.in_rate)}  out {rate(frame.out_rate)}   "
        f"over the last {frame.window_s:.0f} s\n",
        "not bold",
    )
    used = frame.used_bytes / max(1, frame.limit_bytes)
    head.append(
        f"memory {size(frame.used_bytes)}, {percent(used)} of the alarm limit "
        f"{size(frame.limit_bytes)}   ",
        "not bold",
    )
    if frame.alarms:
        head.append(f"ALARM {' & '.join(frame.alarms)}", RED)
    else:
        head.append("no alarm", "not bold green")
    head.append(
        f"   {frame.throttled} of {amount(frame.connections)} connections throttled", "not bold"
    )
    return head


def _more(count: int, what: str) -> list[Text]:
    return [Text(f"… {count} more {what}", FAINT)] if count > 0 else []


def _publisher(row: PublisherRow) -> list[Cell | str]:
    style = RED if row.blocked_share >= 0.05 else ""
    longest = duration(round(row.longest_ms * NS_PER_MS)) if row.longest_ms else ""
    return [
        row.name,
        rate(row.rate),
        Cell(percent(row.blocked_share), style),
        Cell(bar(row.blocked_share), style),
        longest,
        row.cause or "–",
    ]


def _queue(row: TopQueue) -> list[Cell | str]:
    return [
        row.name,
        amount(row.ready),
        amount(row.unacked),
        rate(row.in_rate),
        rate(row.out_rate),
        percent(row.busy_share),
        Cell(percent(row.blocked_share), RED if row.blocked_share >= 0.05 else ""),
        percent(row.waiting_share),
        row.cause or "–",
    ]


def _consumer(row: ConsumerRow) -> list[Cell | str]:
    window = f"{row.unacked}/{row.prefetch}" if row.prefetch else f"{row.unacked}/no limit"
    return [
        row.connection,
        row.tag,
        row.queue,
        rate(row.out_rate),
        Cell(f"{window} FULL", RED) if row.is_full else window,
        duration(round(row.ack_ms * NS_PER_MS)) if row.ack_ms else "",
        percent(row.held_share),
    ]
