"""The live view: what was appended since the last look, torn lines included."""

import json
from pathlib import Path

from penstock.demo.screen import EventTail


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
