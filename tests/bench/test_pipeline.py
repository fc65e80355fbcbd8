"""The events that the pipeline is measured with are such as a broker writes: whole, in order."""

from pathlib import Path

import pytest

from bench.pipeline import WARM_UP_EVENTS
from bench.pipeline_events import SHAPES, write_events
from tests.spark.oracle_input import read_events
from tests.spark.oracle_intervals import block_intervals

GATES = {"pressed": (0.9, 1.0), "calm": (0.1, 0.3), "random": (0.9, 1.0)}
"""Their share of all events."""


@pytest.mark.parametrize("shape", SHAPES)
def test_the_events_are_whole_and_their_holds_tell_their_length(tmp_path: Path, shape: str) -> None:
    write_events(tmp_path / "in", WARM_UP_EVENTS, shape)
    log = read_events(tmp_path / "in")
    assert (len(log.events), log.missing_count, log.unreadable_count) == (WARM_UP_EVENTS, 0, 0)
    closed: dict[tuple[str, str], int] = {}
    last: dict[str, int] = {}
    gates = 0
    for event in log.events:
        assert event.t_ns >= last.get(event.boot_id, 0)
        last[event.boot_id] = event.t_ns
        if event.kind == "gate_closed":
            closed[event.actor, event.peer] = event.t_ns
        elif event.kind == "gate_opened":
            assert event.amount == event.t_ns - closed.pop((event.actor, event.peer))
        gates += event.kind.startswith("gate")
    low, high = GATES[shape]
    assert low <= gates / WARM_UP_EVENTS <= high
    assert len(block_intervals(log.events)) > gates // 3
