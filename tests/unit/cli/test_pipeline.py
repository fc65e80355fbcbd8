"""`penstock pipeline`: tables and a report from event files, and faults that say what to do."""

import csv
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from tests.spark.synthetic import World, write_world


def penstock(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)])


def test_tables_and_then_a_report(tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=21, damaged=True))
    paths = ("--input", tmp_path / "in", "--tables", tmp_path / "tables")
    made = penstock("run", *paths, "--no-spark")
    assert made.exit_code == 0, made.output
    assert "3 events missing, 1 lines unreadable" in made.output
    before = {path: path.read_bytes() for path in (tmp_path / "tables").rglob("*.*")}
    assert penstock("run", *paths, "--no-spark").exit_code == 0
    assert before == {path: path.read_bytes() for path in (tmp_path / "tables").rglob("*.*")}
    said = penstock(
        "report", "--tables", tmp_path / "tables", "--output", tmp_path / "out", "--export", "csv"
    )
    assert said.exit_code == 0, said.output
    assert "slow consumers: consumer:ctag1@conn:W" in said.output
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<h1>Run report" in page
    for title in ("What would help", "Queue depth and alarms", "How long each stage takes"):
        assert title in page
    assert "telemetry with gaps: 3 events missing" in page
    with (tmp_path / "out" / "tables" / "alarms.csv").open(newline="", encoding="utf-8") as file:
        assert [row["alarm"] for row in csv.DictReader(file)] == ["alarm:memory"]


def test_a_broken_promise_is_the_exit_status(tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=22, lost=1))
    (tmp_path / "in" / "run.json").unlink()
    penstock("run", "--input", tmp_path / "in", "--tables", tmp_path / "t", "--no-spark")
    said = penstock("report", "--tables", tmp_path / "t", "--output", tmp_path / "out")
    assert said.exit_code == 1
    assert "1 lost" in said.output
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "<h1>Flow report" in page, "events of any broker are no run"


def test_another_width_of_buckets_is_refused(tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=23))
    paths = ("--input", tmp_path / "in", "--tables", tmp_path / "t", "--no-spark")
    assert penstock("run", *paths, "--bucket", "2").exit_code == 0
    fault = penstock("run", *paths).exception
    assert isinstance(fault, OperatorError)
    assert "go on with --bucket 2" in str(fault)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--input", "nowhere", "--tables", "t"), "is not a directory"),
        (("report", "--tables", "nowhere", "--output", "o"), "penstock pipeline run --input"),
    ],
)
def test_what_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fault = penstock(*arguments).exception
    assert isinstance(fault, OperatorError)
    assert words in str(fault)
