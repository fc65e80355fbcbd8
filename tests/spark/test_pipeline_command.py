"""`penstock pipeline`: tables and a report from event files, by the commands as they are typed."""

import csv
import re
import subprocess
import sys
from pathlib import Path

from penstock.spark.java import JavaHome
from tests.spark.marks import IN_SPARK
from tests.spark.synthetic import World, write_world
from tests.terminal import on_terminal

pytestmark = IN_SPARK
SECONDS_MAX = 300


def penstock(*arguments: str | Path) -> tuple[int, str]:
    """Exit status and what it said."""
    command = [sys.executable, "-m", "penstock.cli.main", "pipeline", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX)
    return done.returncode, done.stdout + done.stderr


def test_tables_and_then_a_report(java: JavaHome, tmp_path: Path) -> None:
    """A message was lost, and telemetry has gaps: both are told, and the exit status follows."""
    write_world(tmp_path / "in", World(seed=21, damaged=True, lost=1))
    paths = ("--input", tmp_path / "in", "--tables", tmp_path / "tables")
    status, said = penstock("run", *paths)
    assert status == 0, said
    assert "3 events missing, 1 lines unreadable" in said
    assert said.startswith("start    Spark on Java ")
    assert "100% · " in said and "━" not in said
    out = tmp_path / "out"
    status, said = penstock("report", *paths[2:], "--output", out, "--export", "csv")
    assert status == 1, said
    assert "1 lost" in said and "slow consumers: consumer:ctag1@conn:W" in said
    page = (out / "index.html").read_text(encoding="utf-8")
    for title in ("What would help", "Queue depth and alarms", "How long each stage takes"):
        assert title in page
    assert "telemetry with gaps: 3 events missing" in page
    with (out / "tables" / "alarms.csv").open(newline="", encoding="utf-8") as file:
        assert [row["alarm"] for row in csv.DictReader(file)] == ["alarm:memory"]


def test_on_a_terminal_a_backlog_has_a_bar(java: JavaHome, tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=22))
    options = ("--input", str(tmp_path / "in"), "--tables", str(tmp_path / "tables"))
    command = (sys.executable, "-m", "penstock.cli.main", "pipeline", "run", *options)
    status, shown = on_terminal(*command, seconds_max=SECONDS_MAX)
    assert status == 0, shown
    assert "starting Spark" in shown and "reading" in shown and "━" in shown
    assert re.search(r"100% · [\d,]+ events · [\d.,]+/s", shown.splitlines()[-1])
