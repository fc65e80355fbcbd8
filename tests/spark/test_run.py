"""`penstock run` itself, short, without Spark and with it: broker, clients, scenario, checks."""

import importlib.util
import sys
from html import escape
from pathlib import Path

import psutil
import pytest

from penstock.demo.main import RunOptions, run
from penstock.spark.java import JavaHome
from penstock.spark.report.summary import Summary
from tests.conformance.live import free_port
from tests.patience import until

pytestmark = pytest.mark.slow


CLIENTS = ("pika", "aio_pika", "celery")
HAS_CLIENTS = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in CLIENTS),
    reason="the clients are not installed",
)


@HAS_CLIENTS
def test_without_spark_a_run_checks_what_its_clients_saw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What cannot be imported is not there.
    monkeypatch.setitem(sys.modules, "pyspark", None)
    report_dir = tmp_path / "report"
    before = psutil.Process().children(recursive=True)
    status = run(RunOptions(free_port(), duration_scale=0.1, report_dir=report_dir))
    out = capsys.readouterr().out
    assert "✔ no confirmed message lost" in out, out
    assert "✔ no message delivered twice" in out, out
    # Latency depends on what else this machine does; the exit status follows all checks.
    assert status == (1 if "✘" in out else 0), out
    assert " report   none: the pipeline needs pyspark: pip install" in out
    assert not (report_dir / "events").exists() and not (report_dir / "index.html").exists()
    # Other tests' brokers have helpers that come and go.
    until(
        lambda: set(psutil.Process().children(recursive=True)) <= set(before),
        "nothing is left running",
    )


@HAS_CLIENTS
def test_a_run_with_spark_ends_with_a_report(
    java: JavaHome, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report_dir = tmp_path / "report"
    status = run(RunOptions(free_port(), duration_scale=0.1, report_dir=report_dir))
    out = capsys.readouterr().out
    summary = Summary.read(report_dir / "summary.json")
    states = {promise.name: promise.state for promise in summary.promises}
    assert states["no confirmed message lost"] == "kept", out
    assert states["no message delivered twice"] == "kept", out
    assert states["blame adds up to held time"] == "kept", out
    # Clients by themselves, their traces, and the broker's queues.
    assert states["clients and broker count the same"] == "kept", out
    assert summary.published == summary.confirmed == summary.delivered <= summary.queued_in
    page = (report_dir / "index.html").read_text(encoding="utf-8")
    assert len(summary.promises) == 15
    for promise in summary.promises:
        assert escape(promise.name) in page and promise.name in out
    assert f"<b>{summary.published:,}</b><span>messages published" in page
    assert f"<b>{summary.delivered:,}</b><span>delivered" in page
    for kept in (
        "every order of the shop is in the tables",
        "every message is in bronze once",
        "gold is the sum of silver",
        "every good order is billed once",
        "every bad order is a dead letter once",
    ):
        assert states[kept] == "kept", out
    assert "Spark was killed (kill -9, driver and Java)" in page
    assert status == (1 if "✘" in out else 0), out
    assert summary.published > 0 and (report_dir / "index.html").is_file()
    assert not (report_dir / "events").exists()


def test_a_bad_scale_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(RunOptions(duration_scale=99.0, report_dir=tmp_path)) == 2
    assert "allowed is 0.1 to 10" in capsys.readouterr().out
