"""Trace files: what a worker notes is what the analysis reads."""

from pathlib import Path

from penstock.demo.workers.part import BLOCK_LINES, Trace
from penstock.spark.schema.formats import read_traces


def test_every_note_is_read_back(tmp_path: Path) -> None:
    with Trace(str(tmp_path), "me") as trace:
        for number in range(BLOCK_LINES + 3):
            trace.note(f"m-{number}", "published", "orders", "slow consumer")
    log = read_traces(tmp_path)
    assert log.unreadable_count == 0
    assert [line.message_id for line in log.lines] == [f"m-{n}" for n in range(BLOCK_LINES + 3)]
    assert log.lines[0][3:] == ("me", "orders", "slow consumer")
    assert log.lines[0].t_ns <= log.lines[-1].t_ns
