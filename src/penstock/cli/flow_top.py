"""`penstock flow top`: one frame on paper, or a live screen with three keys.

The keyboard is read only when standard input is a terminal, in its one-key mode, which is given
back however the screen ends.
"""

import os
import select
import shutil
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers_flow import (
    TOP_SORTS,
    ConsumerRow,
    Frame,
    PublisherRow,
    TopQueue,
)
from penstock.cli.asking import RunningBroker
from penstock.cli.shapes import converted
from penstock.cli.tables import (
    BOLD,
    FAINT,
    GREEN,
    RED,
    Cell,
    Screen,
    Table,
    columns,
    console,
    styled,
    table,
)
from penstock.telemetry.words import amount, duration, percent, rate, size

BAR_CELLS = 8
NS_PER_MS = 1_000_000
PUBLISHER_COLUMNS = columns(
    "PUBLISHERS:name rate:number blocked:number ________::2 longest:number:1 cause:name"
)
QUEUE_COLUMNS = columns(
    "QUEUES:name ready:number unacked:number:4 in:number out:number busy:number:2 blocked:number:5 "
    "waiting:number:1 cause:name"
)
CONSUMER_COLUMNS = columns(
    "CONSUMERS:name tag:name:2 queue:name out:number window:number ack:number:3 held:number"
)
ENTER = "\x1b[?1049h\x1b[?25l"
LEAVE = "\x1b[?25h\x1b[?1049l"
HOME = "\x1b[H"
TO_LINE_END = "\x1b[K"
TO_SCREEN_END = "\x1b[J"
KEYS = {"\x1b[A": "up", "\x1b[B": "down", "k": "up", "j": "down", " ": "page", "\x1b[6~": "page"}
KEYS |= {"\x1b[5~": "back", "b": "back"}
HEAD_LINES = 3
"""That stay where they are while the rest is scrolled."""


@dataclass(frozen=True, slots=True)
class TopOptions:
    """broker: that is asked; request: what; interval_s: between two frames."""

    broker: RunningBroker
    request: dict[str, object]
    interval_s: float
    is_once: bool


def run_top(options: TopOptions) -> None:
    """Until q or Ctrl-C, or one frame. Raises: OperatorError when no broker answers at first."""
    screen = console()
    first = _fetch(options)
    if options.is_once or not screen.is_terminal or not sys.stdin.isatty():
        for line in draw(first, screen):
            screen.write(line)
        return
    with _one_key_mode():
        screen.stream.write(ENTER)
        try:
            _live(options, screen, first)
        except KeyboardInterrupt:
            return
        finally:
            screen.stream.write(LEAVE)
            screen.stream.flush()


def _live(options: TopOptions, screen: Screen, first: Frame) -> None:
    frame, note, is_frozen, top = first, "", False, 0
    while True:
        width, height = shutil.get_terminal_size()
        sized = Screen(screen.stream, width, screen.has_colour)
        lines = draw(frame, sized)
        top = max(0, min(top, len(lines) - (height - 1)))
        foot = f"s sort ({options.request['sort']})  f freeze  ↑↓ space scroll  q quit  {note}"
        shown = scrolled(lines, top, height - 1)
        foot = foot[:width]
        shown.append(styled(foot, FAINT) if screen.has_colour else foot)
        text = (TO_LINE_END + "\r\n").join(shown)
        screen.stream.write(HOME + text + TO_LINE_END + TO_SCREEN_END)
        screen.stream.flush()
        key = _key(options.interval_s)
        if key == "q":
            return
        if key == "s":
            at = TOP_SORTS.index(str(options.request["sort"]))
            options.request["sort"] = TOP_SORTS[(at + 1) % len(TOP_SORTS)]
        elif key == "f":
            is_frozen = not is_frozen
        elif key in STEPS:
            top += STEPS[key] if key in ("up", "down") else STEPS[key] * (height - HEAD_LINES - 2)
            continue
        note = "frozen; f goes on" if is_frozen else ""
        if not is_frozen:
            try:
                frame = _fetch(options)
            except OperatorError as error:
                note = f"no answer: {error}"


STEPS = {"up": -1, "down": 1, "page": 1, "back": -1}


def scrolled(lines: list[str], top: int, height: int) -> list[str]:
    """`height` of the lines: the head, and the rest from `top` on."""
    if len(lines) <= height:
        return list(lines)
    return lines[:HEAD_LINES] + lines[HEAD_LINES + top :][: height - HEAD_LINES]


def _fetch(options: TopOptions) -> Frame:
    return converted(options.broker.ask(options.request), Frame)


def _key(wait_s: float) -> str:
    """The next key within `wait_s` seconds, "" if none came; others than ours are passed over."""
    end = time.monotonic() + wait_s
    while (left := end - time.monotonic()) > 0:
        if select.select([sys.stdin], [], [], left)[0]:
            # Not through the buffered stream, which would keep a second key from `select`.
            key = os.read(sys.stdin.fileno(), 8).decode("ascii", "replace")
            if key == "":
                return "q"
            if key in KEYS:
                return KEYS[key]
            if key[0].lower() in ("q", "s", "f"):
                return key[0].lower()
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


def draw(frame: Frame, screen: Screen) -> list[str]:
    """One frame in lines; the first HEAD_LINES are about the node."""
    lines = [*_head(frame, screen), ""]
    if frame.window_s == 0:
        lines.append("nothing is measured yet; ask again in a second")
    for part, left, what in (
        (
            table(PUBLISHER_COLUMNS, map(_publisher, frame.publishers)),
            frame.publishers_more,
            "publishers",
        ),
        (table(QUEUE_COLUMNS, map(_queue, frame.queues)), frame.queues_more, "queues"),
        (
            table(CONSUMER_COLUMNS, map(_consumer, frame.consumers)),
            frame.consumers_more,
            "consumers",
        ),
    ):
        lines += _part(part, left, what, screen)
    return lines[:-1]


def _part(part: Table, left: int, what: str, screen: Screen) -> list[str]:
    head, _, *rows = part.lines(screen.width, screen.has_colour)
    lines = [head, *rows]
    if left > 0:
        lines.append(f"… {left} more {what}")
    return [*lines, ""]


def bar(share: float) -> str:
    """`▇▇▇▇▇░░░` for 0.61; nothing below one percent."""
    if share < 0.01:
        return ""
    full = min(BAR_CELLS, max(1, round(share * BAR_CELLS)))
    return "▇" * full + "░" * (BAR_CELLS - full)


def _head(frame: Frame, screen: Screen) -> list[str]:
    used = frame.used_bytes / max(1, frame.limit_bytes)
    alarm = f"ALARM {' & '.join(frame.alarms)}" if frame.alarms else "no alarm"
    title, style = "penstock top", RED if frame.alarms else GREEN
    if screen.has_colour:
        title, alarm = styled(title, BOLD), styled(alarm, style)
    return [
        f"{title}  {frame.profile}  up {duration(round(frame.uptime_s) * 1_000_000_000)}  "
        f"in {rate(frame.in_rate)}  out {rate(frame.out_rate)}  last {frame.window_s:.0f} s",
        f"memory {size(frame.used_bytes)}, {percent(used)} of {size(frame.limit_bytes)}  {alarm}  "
        f"{frame.throttled} of {amount(frame.connections)} connections throttled",
    ]


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
