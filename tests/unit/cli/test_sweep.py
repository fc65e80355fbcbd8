"""Tests of `penstock sweep` as people meet it: printed, kept, drawn, resumed after a kill."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("numpy")
pytest.importorskip("pyarrow")

from penstock.base.errors import OperatorError
from penstock.cli.sweep import command
from penstock.cli.sweep_run import seeds_of
from penstock.sweep.choices import PARQUET
from penstock.sweep.tables import FOLDER, RowTable
from tests.patience import PATIENCE_S, until

TINY = (
    "--no-spark", "--engine", "fluid", "--workloads", "chain-consumer", "--connections", "4",
    "--seconds", "0.2", "--table", PARQUET,
)  # fmt: skip


def sweep(*arguments: str, out: Path) -> Result:
    return CliRunner().invoke(command, [*TINY, *arguments, "--out", str(out)])


def test_a_front_is_printed_and_drawn(tmp_path: Path) -> None:
    found = sweep("--profiles", "static-5,static-50", "--load", "2,4", out=tmp_path)
    assert found.exit_code == 0, found.output
    assert "chain-consumer, 4 connections, load 2 (fluid, 0.2 s)" in found.output
    assert "over all 2 situations" in found.output
    assert "4/4 points" in found.output
    drawn = {path.name for path in tmp_path.glob("*.svg")}
    assert drawn == {"front-chain-consumer-fluid.svg", "surface-chain-consumer-fluid.svg"}
    assert all(path.stat().st_size > 5000 for path in tmp_path.glob("*.svg"))


def test_plots_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    (tmp_path / "front-chain-consumer-fluid.svg").mkdir()
    found = sweep(out=tmp_path)
    assert found.exit_code == 0, "its rows are kept, and printed"
    assert "front-chain-consumer-fluid.svg cannot be written: Is a directory" in found.stderr


def test_one_axis_is_drawn_as_lines(tmp_path: Path) -> None:
    assert sweep("--credit", "5/2,20/10,80/40", out=tmp_path).exit_code == 0
    assert "window, messages" in (tmp_path / "surface-chain-consumer-fluid.svg").read_text()


def test_both_engines_tell_how_far_they_differ(tmp_path: Path) -> None:
    found = sweep("--engine", "both", "--load", "2", "--no-plots", out=tmp_path)
    assert "fluid model against events at 1 points in common" in found.output
    assert not list(tmp_path.glob("*.svg"))


def test_nothing_is_run_twice(tmp_path: Path) -> None:
    sweep("--seeds", "1-2", "--no-plots", out=tmp_path)
    parts = sorted((tmp_path / FOLDER).iterdir())
    again = sweep("--seeds", "1-3", "--no-plots", "--format", "json", out=tmp_path)
    assert "3 points, 2 of them in" in again.stderr
    assert "1/1 points" in again.stderr
    assert len(json.loads(again.stdout)["rows"]) == 3
    assert set(parts) < set((tmp_path / FOLDER).iterdir())


def test_a_killed_sweep_goes_on_where_it_was(tmp_path: Path) -> None:
    # So many that it is in the middle of them, however late the first part is seen.
    many = 1000
    arguments = [*TINY, "--seeds", f"1-{many}", "--no-plots", "--out", str(tmp_path)]
    running = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "sweep", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until(lambda: list(tmp_path.glob(f"{FOLDER}/part-*")), "the first points")
    finally:
        running.kill()
        running.wait()
    kept = RowTable(tmp_path).rows()
    assert 0 < len(kept) < many, "it was killed in the middle"
    done = {int(str(row["seed"])) for row in kept}
    left = [seed for seed in range(1, many + 1) if seed not in done][:20]
    wanted = sorted([*done, *left])
    seeds = ",".join(map(str, wanted))
    again = sweep("--seeds", seeds, "--no-plots", "--format", "json", out=tmp_path)
    assert f"{len(wanted)} points, {len(kept)} of them in" in again.stderr
    assert f"{len(left)}/{len(left)} points" in again.stderr
    found = json.loads(again.stdout)["rows"]
    assert [row["seed"] for row in found] == wanted
    assert all(row in found for row in kept)


def test_sigterm_ends_it_as_ctrl_c_does(tmp_path: Path) -> None:
    """As of `timeout`: Spark's files stayed, which are removed on the way out only."""
    arguments = [*TINY, "--seeds", "1-1000", "--no-plots", "--out", str(tmp_path)]
    running = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "sweep", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        until(lambda: list(tmp_path.glob(f"{FOLDER}/part-*")), "the first points")
        running.terminate()
        said = running.communicate(timeout=PATIENCE_S)[1]
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 1
    assert "Aborted!" in said and "Traceback" not in said


def test_a_dry_run_runs_nothing(tmp_path: Path) -> None:
    assert "5 points, 0 of them" in sweep("--seeds", "1-5", "--dry-run", out=tmp_path).output
    assert not (tmp_path / FOLDER).exists()


def test_seeds_are_read_as_people_write_them() -> None:
    assert seeds_of("1-3, 7,2") == (1, 2, 3, 7)
    for text in ("", "3-1", "x", "1-5000", "9" * 20, "9" * 5000, "1-" + "9" * 5000):
        with pytest.raises(OperatorError, match="--seeds"):
            seeds_of(text)


def test_bad_numbers_are_refused_by_option(tmp_path: Path) -> None:
    for arguments, text in (
        (("--load", "much"), "--load 'much' is not a number"),
        (("--connections", "1e3"), "--connections '1e3' is not a whole number"),
        (("--seeds", "-5"), "--seeds '-5': write FIRST-LAST, from 0 on"),
        (("--seeds", "5-"), "--seeds '5-': write FIRST-LAST, from 0 on"),
        (("--workloads", ","), "--workloads names none"),
        (("--profiles", ""), "--profiles names none"),
        (("--load", ","), "--load names none"),
        (("--connections", ""), "--connections names none"),
        (("--seeds", ""), "--seeds names none"),
    ):
        assert str(sweep(*arguments, out=tmp_path).exception) == text
