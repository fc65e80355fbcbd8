"""The events that the pipeline is measured with are such as a broker writes: whole, in order."""

from pathlib import Path

from bench.pipeline import WARM_UP_EVENTS, write_events
from penstock.spark.formats import read_events
from penstock.spark.intervals import block_intervals


def test_the_events_are_whole_and_their_holds_tell_their_length(tmp_path: Path) -> None:
    write_events(tmp_path / "in", WARM_UP_EVENTS)
    log = read_events(tmp_path / "in")
    assert (len(log.events), log.missing_count, log.unreadable_count) == (WARM_UP_EVENTS, 0, 0)
    closed: dict[tuple[str, str], int] = {}
    for event in log.events:
        if event.kind == "gate_closed":
            closed[event.actor, event.peer] = event.t_ns
        elif event.kind == "gate_opened":
            assert event.amount == event.t_ns - closed.pop((event.actor, event.peer))
    assert len(block_intervals(log.events)) > WARM_UP_EVENTS // 4
