"""What is printed where no terminal is: a line now and then, and one mean for each phase."""

import io
import json
from pathlib import Path

from rich.console import Console

from penstock.demo.screen import EventTail, Screen, StatusLine, line_of, sparkline


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


def line(t_ns: int, kind: str, **fields: object) -> str:
    return json.dumps({"seq": t_ns, "t": t_ns, "kind": kind, **fields}) + "\n"


def hold(t_ns: int, kind: str, actor: str, peer: str, reason: str = "credit") -> str:
    return line(t_ns, kind, actor=actor, peer=peer, reason=reason, amount=0)


def test_holds_are_seen_as_they_come_and_go(tmp_path: Path) -> None:
    file = tmp_path / "events-b.jsonl"
    file.write_text(json.dumps({"format": "penstock-events", "boot_id": "b"}) + "\n")
    tail = EventTail(tmp_path)
    assert tail.look(1000) == tail.look(1000)
    text = hold(1200, "gate_closed", "chan:A/1", "queue:/q") + hold(
        1200, "gate_closed", "queue:/q", "consumers:/q", "depth"
    )
    with file.open("a") as events:
        events.write(text[:70])
    assert tail.look(1400).share == 0.0
    with file.open("a") as events:
        events.write(text[70:])
    held = tail.look(2000)
    assert (held.share, held.cause) == (1.0, "slow consumers")
    with file.open("a") as events:
        events.write(hold(2250, "gate_opened", "chan:A/1", "queue:/q"))
    assert tail.look(3000).share == 0.25
    assert tail.look(4000).share == 0.0


def test_two_publishers_held_at_once_count_once(tmp_path: Path) -> None:
    (tmp_path / "events-b.jsonl").write_text(
        hold(100, "gate_closed", "conn:A", "alarm:memory")
        + hold(150, "gate_closed", "conn:B", "alarm:memory")
    )
    tail = EventTail(tmp_path)
    tail.look(100)
    assert tail.look(200).share == 1.0


def test_waiting_messages_come_from_the_last_sample_of_each_queue(tmp_path: Path) -> None:
    (tmp_path / "events-b.jsonl").write_text(
        line(1, "queue_sample", actor="queue:/q", ready=5, unacked=2)
        + line(2, "queue_sample", actor="queue:/q", ready=3, unacked=1)
        + line(3, "queue_sample", actor="queue:/r", ready=10, unacked=0)
    )
    assert EventTail(tmp_path).look(10).waiting == 14
