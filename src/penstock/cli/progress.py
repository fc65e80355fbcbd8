"""How far a long command is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from types import TracebackType
from typing import Final

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

LINES_S: Final = 10.0
"""Between two lines where no terminal is."""


class Bar:
    """Drawn on standard error while the block lasts; a line with the last numbers stays.

    unit: what is counted, "points"; before: what is done before there is anything to count.
    """

    def __init__(self, unit: str, before: str) -> None:
        self._unit = unit
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(),
            TextColumn("{task.description}"),
            console=Console(file=sys.stderr, highlight=False),
            transient=True,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(before, total=None)
        self._since_s = self._said_s = 0.0
        self._line = ""

    def __enter__(self) -> "Bar":
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()
        if self._line:
            click.echo(self._line, err=True)

    def show(self, share: float, done: int, count: str = "", note: str = "") -> None:
        """share: 0..1 of all the work; done: how many units that are, or `count`, as it is to be
        written; note: what is being done now. The first call starts the clock."""
        now_s = time.monotonic()
        self._since_s = self._since_s or now_s
        spent_s = now_s - self._since_s
        parts = [f"{count or f'{done:,}'} {self._unit}"] if count or done else []
        if done and spent_s > 0:
            parts.append(f"{rate(done / spent_s)}/s")
        if 0 < share < 1 and spent_s > 0:
            parts.append(f"{time_text(spent_s * (1 - share) / share)} left")
        text = " · ".join((f"{share:4.0%}", *parts))
        self._line = text
        text += f" · {note}" if note else ""
        self._bar.update(self._task, description=text, completed=share, total=1.0)
        if self._bar.disable and now_s - self._said_s >= LINES_S:
            self._said_s = now_s
            click.echo(text, err=True)


def rate(per_s: float) -> str:
    """With a digit behind the point where it is small."""
    return f"{per_s:,.0f}" if per_s >= 10 else f"{per_s:.1f}"


def time_text(seconds: float) -> str:
    """`45 s`, `3:20 min`, `2:05 h`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    unit, parts = ("min", divmod(whole, 60)) if whole < 3600 else ("h", divmod(whole // 60, 60))
    return f"{parts[0]}:{parts[1]:02} {unit}"
