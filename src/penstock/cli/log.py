"""`penstock log`: the newest lines of a running broker's log, wherever the log itself goes."""

import sys
import time
from typing import Any, Final

import click

from penstock.base.config import LOG_LEVELS
from penstock.cli.asking import TABLE, RunningBroker, asking, print_json, print_rows

LAST_MAX: Final = 1000
FOLLOW_S: Final = 0.5
NAMES: Final = ["seq", "time", "level", "event", "message"]


@click.command()
@click.option(
    "--last", "-n", default=50, show_default=True, type=click.IntRange(1, LAST_MAX),
    help="How many of the past to show.",
)  # fmt: skip
@click.option(
    "--level", default=LOG_LEVELS[0], show_default=True, type=click.Choice(LOG_LEVELS),
    help="Of this level and above.",
)  # fmt: skip
@click.option("--follow", "-f", is_flag=True, help="Go on with what is written, until Ctrl-C.")
@asking
def log(last: int, level: str, follow: bool, broker: RunningBroker) -> None:
    """The newest lines of the broker's log, the oldest of them first; times in UTC.

    The broker keeps `log_lines` of them, of the level that it writes (`log_level`) and above."""
    try:
        _show_log(last, level, follow, broker)
    except KeyboardInterrupt:
        if not follow:
            raise


def _show_log(last: int, level: str, follow: bool, broker: RunningBroker) -> None:
    question: dict[str, object] = {"op": "log", "level": level}
    answer: Any = broker.ask(question | {"last": last})
    if not follow and broker.form == "json":
        broker.print(answer)
        return
    if not follow and broker.form != TABLE:
        print_rows(answer["lines"], NAMES)
        return
    if broker.form == "csv":
        print_rows([], NAMES)
    while True:
        if answer["missed"]:
            click.echo(f"({answer['missed']} lines went before they could be shown)", err=True)
        for line in answer["lines"]:
            _show(broker.form, line)
        if not follow:
            return
        sys.stdout.flush()
        if not answer["lines"]:
            time.sleep(FOLLOW_S)
        answer = broker.ask(question | {"since": answer["next"], "limit": LAST_MAX})


def _show(form: str, line: dict[str, Any]) -> None:
    """One line of what is followed: an object for each as JSON."""
    if form == "json":
        print_json(line)
    elif form == TABLE:
        click.echo(f"{line['time']} {line['level']:<7} {line['message']}")
    else:
        print_rows([line], NAMES, with_head=False)
