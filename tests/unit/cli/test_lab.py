"""Tests of `penstock lab` as people meet it: what is chosen, printed and written."""

import csv
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.lab import command
from penstock.cli.lab_run import chosen_profiles, chosen_workloads
from penstock.flow.profile import PROFILES
from penstock.lab.plots import write_plots
from penstock.lab.workload import WORKLOADS

SHORT = ("--sim", "--quick", "--seconds", "0.2", "--jobs", "1")
TWO = ("--only", "bursts,memory-alarm", "--strategies", "none,penstock")


def test_everything_is_run_unless_something_is_named() -> None:
    assert len(chosen_workloads("", False, None)) == len(WORKLOADS)
    profiles = chosen_profiles("", False)
    assert set(PROFILES) < set(profiles)
    assert "static-50" in profiles and "static-6400" in profiles
    assert len(chosen_profiles("", True)) < len(profiles)


def test_what_is_named_is_run_in_that_order() -> None:
    assert chosen_profiles("static-7, none,static-07", False) == ("static-7", "none")
    assert chosen_profiles(",", True) == chosen_profiles("", True)
    assert [one.name for one in chosen_workloads("thousand,bursts,thousand", False, 9.0)] == [
        "thousand",
        "bursts",
    ]
    assert chosen_workloads("bursts", False, 9.0)[0].seconds == 9.0


def test_unknown_names_are_refused_with_those_there_are() -> None:
    with pytest.raises(OperatorError, match="workload 'nope' is unknown; one of: slow-queue"):
        chosen_workloads("nope", False, None)
    with pytest.raises(OperatorError, match="flow profile 'nope' is unknown"):
        chosen_profiles("nope", False)


def test_listing_runs_nothing() -> None:
    found = CliRunner().invoke(command, ["--list"])
    assert found.exit_code == 0
    assert "deep-chain     four queues in a row" in found.output
    assert "strategies     penstock" in found.output


@pytest.mark.slow
def test_tables_files_and_plots(tmp_path: Path) -> None:
    """One run of the command for all of them, because it takes a second or two."""
    pytest.importorskip("matplotlib")
    found = CliRunner().invoke(command, [*SHORT, *TWO, "--out", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert "bursts (simulated): four publishers" in found.output
    assert "memory-alarm (sim): " in found.output
    assert "score      (throughput" in found.output
    assert "mean score of 2 workloads (sim): none " in found.output
    everything = json.loads((tmp_path / "results.json").read_text())
    assert [one["where"] for one in everything["overall"]] == ["sim"]
    assert [one["profile"] for one in everything["results"]] == ["none", "penstock"] * 2
    assert everything["about"]["build"] in ("interpreted", "compiled")
    with (tmp_path / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["workload"] for row in rows] == ["bursts"] * 2 + ["memory-alarm"] * 2
    assert all(float(row["throughput_per_s"]) > 0 for row in rows)
    pictures = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for name in ("tradeoff-sim", "bars-sim", "lines-memory-alarm-sim"):
        assert pictures[f"{name}.png"].startswith(b"\x89PNG")
        assert b"<svg" in pictures[f"{name}.svg"]


def test_without_matplotlib_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How Python itself marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(OperatorError, match="no plots, because matplotlib is not installed"):
        write_plots(tmp_path, [], [], [])


@pytest.mark.slow
def test_json_is_one_document_on_standard_output() -> None:
    words = ["--only", "bursts", "--strategies", "penstock", "--format", "json"]
    found = CliRunner().invoke(command, [*SHORT, *words])
    document = json.loads(found.stdout)
    assert document["verdicts"][0]["workload"] == "bursts"
    assert document["results"][0]["lines"]["received"]


def test_a_place_for_results_is_made_before_anything_is_measured(tmp_path: Path) -> None:
    """It ended with a traceback when all of it was done, and nothing was written."""
    (tmp_path / "file").touch()
    out = tmp_path / "file" / "below"
    found = CliRunner().invoke(command, [*SHORT, *TWO, "--out", str(out)])
    assert isinstance(found.exception, OperatorError), found.exception
    assert f"cannot make the directory {out}" in str(found.exception)
    assert found.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["results.json", "bars-sim.png"])
def test_results_that_cannot_be_written_are_told(tmp_path: Path, name: str) -> None:
    """It was a traceback, behind everything that had been measured."""
    (tmp_path / name).mkdir()
    words = ["--only", "bursts", "--strategies", "penstock", "--out", str(tmp_path)]
    found = CliRunner().invoke(command, [*SHORT, *words])
    assert isinstance(found.exception, OperatorError), found.exception
    assert f"{name} cannot be written: Is a directory" in str(found.exception)
    assert "bursts (simulated)" in found.stdout
