"""`penstock run` itself, short and without Spark: broker, clients, scenario, report."""

import importlib.util
from pathlib import Path

import psutil
import pytest

from penstock.demo.main import RunOptions, run
from penstock.spark.report.summary import Summary
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("pika", "aio_pika", "celery")),
    reason="the clients are not installed",
)
def test_a_short_run_loses_nothing_and_leaves_nothing_running(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report_dir = tmp_path / "report"
    before = psutil.Process().children(recursive=True)
    options = RunOptions(free_port(), duration_scale=0.1, with_spark=False, report_dir=report_dir)
    status = run(options)
    out = capsys.readouterr().out
    summary = Summary.read(report_dir / "summary.json")
    states = {promise.name: promise.state for promise in summary.promises}
    # Latency promises depend on what else this machine does; the exit status follows them all.
    assert status == (0 if summary.is_kept else 1), out
    assert states["no confirmed message lost"] == "kept", out
    assert states["no message delivered twice"] == "kept", out
    assert states["blame adds up to held time"] == "kept", out
    assert summary.published > 0
    assert not (report_dir / "events").exists()
    assert ("a promise was broken" in (report_dir / "index.html").read_text()) == (status == 1)
    # Other tests' brokers have helpers that come and go.
    until(
        lambda: set(psutil.Process().children(recursive=True)) <= set(before),
        "nothing is left running",
    )


def test_a_bad_scale_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RunOptions(duration_scale=99.0, report_dir=tmp_path)) == 2
    assert "allowed is 0.1 to 10" in capsys.readouterr().out
