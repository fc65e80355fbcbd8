"""The runner of the clients' suites itself: a failure may never get lost on the way to us."""

import json
import socket
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.conformance import suites
from tests.conformance.live import Broker
from tests.conformance.suite_plugin import matches
from tests.conformance.suite_shelf import staging
from tests.conformance.suite_table import SUITES, Suite
from tests.conformance.suites import (
    Disturbed,
    Off,
    Prepared,
    Result,
    complaints,
    judged,
    merged,
    run,
    switched_off,
)
from tests.patience import PATIENCE_S

NOBODY = Broker("127.0.0.1", 1)


def line(test: str, outcome: str) -> str:
    return json.dumps({"test": test, "outcome": outcome, "text": "why"})


def test_a_failure_in_any_phase_is_the_result() -> None:
    lines = [line("a", "failed"), line("b", "passed"), line("b", "failed")]
    lines += [line("c", "failed"), line("c", "passed"), line("d", "passed")]
    outcomes = {result.test: result.outcome for result in merged(lines)}
    assert outcomes == {"a": "failed", "b": "failed", "c": "failed", "d": "passed"}


def test_unlisted_failures_and_stale_entries_are_told() -> None:
    results = [
        Result("m::bad", "failed", "why"),
        Result("m::known[x]", "failed", "why"),
        Result("m::better", "passed", ""),
        Result("m::never", "not run", ""),
        Result("m::good", "passed", ""),
    ]
    off = [
        Off("m::known*", "", True),
        Off("m::better", "", True),
        Off("m::never", "", False),
        Off("m::gone", "", True),
    ]
    told = [complaint.split("\n")[0] for complaint in complaints(results, off)]
    assert told == [
        "FAILED m::bad",
        "STALE m::better passes: take it off the list",
        "STALE m::gone: there is no such test",
    ]


def test_only_the_star_is_special_in_a_name() -> None:
    assert matches("t::x[a-b]", "t::x[a-*")
    assert matches("t::x[a-b]", "*[a-b]")
    assert not matches("t::xa", "t::x[a]")


def nothing_disturbs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever this machine does: as on a quiet one."""
    monkeypatch.setattr(suites, "LATE_S_MAX", PATIENCE_S)
    monkeypatch.setattr(suites, "WAITING_SHARE_MAX", 1.0)


@pytest.mark.slow
def test_a_suite_that_does_not_end_is_cut_and_that_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_disturbs(monkeypatch)
    hanging = "import threading\n\ndef test_hangs():\n    threading.Event().wait()\n"
    (tmp_path / "test_hanging.py").write_text(hanging)
    prepared = Prepared(Suite("cut", "pytest", ("test_hanging.py",), 3), tmp_path, ())
    with pytest.raises(AssertionError, match="cut: longer than 3 s"):
        run(prepared, NOBODY, tmp_path)


STANDS_STILL = """
import os
from pathlib import Path

RUNS = Path("runs")

def test_well():
    pass

def test_wrong_at_first():
    before = RUNS.read_text() if RUNS.exists() else ""
    RUNS.write_text(before + "x")
    if len(before) < {wrong}:
        me = os.getpid()
        os.system(f"kill -STOP {{me}}; sleep 0.6; kill -CONT {{me}}")
        raise ValueError(f"run {{len(before) + 1}}")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wrong", "is_quiet", "ended"),
    [(1, False, "passed"), (1, True, "failed"), (9, False, "disturbed")],
)
def test_what_failed_runs_again_if_it_stood_still_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int, is_quiet: bool, ended: str
) -> None:
    if is_quiet:
        nothing_disturbs(monkeypatch)
    (tmp_path / "test_still.py").write_text(STANDS_STILL.format(wrong=wrong))
    prepared = Prepared(Suite("still", "pytest", ("test_still.py",)), tmp_path, ())
    try:
        results = judged(prepared, lambda: nullcontext(NOBODY), tmp_path)
        outcomes = {one.test.partition("::")[2]: one.outcome for one in results}
    except Disturbed as error:
        outcomes = {"test_well": "passed", str(error).partition("::")[2]: "disturbed"}
    assert outcomes == {"test_well": "passed", "test_wrong_at_first": ended}


@pytest.mark.slow
def test_a_suite_that_knows_only_the_usual_port_is_led_to_the_broker(tmp_path: Path) -> None:
    connecting = "import socket\n\ndef test_connects():\n"
    connecting += "    socket.create_connection(('127.0.0.1', 5672), timeout=60).close()\n"
    (tmp_path / "test_connecting.py").write_text(connecting)
    suite = Suite("led", "pytest", ("test_connecting.py",), wants_usual_port=True)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        broker = Broker("127.0.0.1", listener.getsockname()[1])
        results = run(Prepared(suite, tmp_path, ()), broker, tmp_path).results
        assert [result.outcome for result in results] == ["passed"]
        listener.settimeout(PATIENCE_S)
        listener.accept()[0].close()


def test_of_two_runs_that_fill_the_shelf_at_once_the_first_stays(tmp_path: Path) -> None:
    target = tmp_path / "archive"
    with staging(target) as late:
        (late / "text").write_text("late")
        with staging(target) as early:
            (early / "text").write_text("early")
    assert (target / "text").read_text() == "early"
    assert list(tmp_path.iterdir()) == [target]


def test_the_documentation_gives_every_reason_for_what_is_off() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text()
    for suite in SUITES.values():
        for entry in switched_off(suite.name):
            assert entry.reason in page, entry
        assert f"| {suite.version} |" in page, "its counts are of another version"
