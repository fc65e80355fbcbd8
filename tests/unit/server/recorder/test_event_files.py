"""Event files: everything recorded is in them once, and a bad place is the operator's fault."""

from pathlib import Path

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.server.recorder.event_writers import EventFile
from penstock.telemetry.events import ACTOR_UP
from penstock.telemetry.recorder import Recorder
from penstock.telemetry.trace import TraceHeader

HEADER = TraceHeader("node", "boot", 0, 0, "1")


def test_every_event_is_written_once(tmp_path: Path) -> None:
    clock = ManualClock()
    recorder = Recorder(clock, 16)
    file = EventFile(str(tmp_path / "new"), HEADER, recorder)
    for index in range(3):
        recorder.record(ACTOR_UP, f"queue:/{index}", "", "", 0)
        file.write()
    file.write()
    recorder.record(ACTOR_UP, "queue:/last", "", "", 0)
    file.close()
    lines = file.path.read_text().splitlines()
    assert len(lines) == 1 + 4
    assert "queue:/last" in lines[-1]


def test_events_that_left_the_ring_are_counted(tmp_path: Path) -> None:
    clock = ManualClock()
    recorder = Recorder(clock, 16)
    file = EventFile(str(tmp_path), HEADER, recorder)
    for index in range(40):
        recorder.record(ACTOR_UP, f"queue:/{index}", "", "", 0)
    file.close()
    assert len(file.path.read_text().splitlines()) == 1 + 1 + 16


def test_a_place_that_cannot_be_written_is_the_operators_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    clock = ManualClock()
    with pytest.raises(OperatorError, match="--events"):
        EventFile(str(tmp_path / "file"), HEADER, Recorder(clock, 16))
