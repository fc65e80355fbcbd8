"""What is printed where no terminal is: a line now and then, and one mean for each phase."""

import io
from pathlib import Path

from rich.console import Console

from penstock.client.io_blocking import connect
from penstock.client.url import parse_url
from penstock.demo.screen import Screen, StatusLine, line_of, look, sparkline
from penstock.protocol.values import Table
from penstock.server.control.control_client import control_path
from tests.conformance.live import penstock_process
from tests.patience import until


def reading(seconds: float, phase: str, share: float = 0.0) -> StatusLine:
    return StatusLine(seconds, phase, 100.0, 90.0, 5_000_000, 7, share, "disk" if share else "")


def test_shares_become_bars() -> None:
    assert sparkline([0.0, 0.5, 1.0, 2.0, -1.0]) == "▁▅██▁"


def test_a_line_says_everything() -> None:
    text = line_of(reading(65.0, "burst", 0.5), "tail")
    for part in ("t=01:05", "burst", "100/s", "90/s", "5 ms", "50%", "cause: disk"):
        assert part in text


def test_every_phase_ends_with_its_mean() -> None:
    out = io.StringIO()
    screen = Screen(Console(file=out, width=200))
    screen.open()
    for second in range(8):
        screen.show(reading(float(second), "steady" if second < 5 else "burst", 0.25))
    screen.close()
    lines = out.getvalue().splitlines()
    means = [line for line in lines if "mean" in line]
    assert ["steady" in means[0], "burst" in means[1]] == [True, True]
    assert len(lines) == 4


def test_brackets_are_text_and_no_markup() -> None:
    out = io.StringIO()
    Screen(Console(file=out, width=200)).say("[bold]as it is[/bold]")
    assert out.getvalue() == "[bold]as it is[/bold]\n"


def test_who_is_held_is_asked_of_the_broker(tmp_path: Path) -> None:
    """A queue with room for five, of which nobody takes anything."""
    bounds: Table = {"x-max-length": 5, "x-overflow": "backpressure"}
    with penstock_process(tmp_path) as broker:
        path = control_path(broker.port)
        seen = look(path)
        assert (seen.share, seen.cause, seen.waiting) == (0.0, "", 0)
        with connect(parse_url(broker.patient_url)) as connection:
            channel = connection.channel()
            channel.declare_queue("full", arguments=bounds)
            for _ in range(600):
                channel.publish("", "full", b"x")
            until(lambda: look(path).share > 0.5 and look(path).waiting >= 5, "it is held")
            assert "full" in look(path).cause
            channel.purge_queue("full")
