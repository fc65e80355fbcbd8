"""`penstock pipeline`: tables and a report from event files, by the commands as they are typed."""

import csv
import re
import subprocess
import sys
from pathlib import Path

from penstock.spark.java import JavaHome
from penstock.spark.tables.store import existing_store
from tests.spark.marks import IN_SPARK
from tests.spark.synthetic import World, write_world
from tests.terminal import on_terminal

pytestmark = IN_SPARK
SECONDS_MAX = 300


def test_tables_and_then_a_report(java: JavaHome, tmp_path: Path) -> None:
    """A message was lost, and telemetry has gaps: both are told, and the exit status follows. On a
    terminal the backlog has a bar."""
    write_world(tmp_path / "in", World(seed=21, damaged=True, lost=1))
    tables, out = str(tmp_path / "tables"), tmp_path / "out"
    penstock = (sys.executable, "-m", "penstock.cli.main", "pipeline")
    paths = ("--input", str(tmp_path / "in"), "--tables", tables)
    status, said, drawn = on_terminal(*penstock, "run", *paths, seconds_max=SECONDS_MAX)
    assert status == 0, said + drawn
    assert said.startswith("start    Spark on Java ")
    assert "3 events missing, 1 lines unreadable" in said
    assert "starting Spark" in drawn and "reading" in drawn and "━" in drawn
    assert re.search(r"100% · [\d,]+ events · [\d.,]+/s", drawn.splitlines()[-1])
    asked = ("--tables", tables, "--output", str(out), "--export", "csv")
    status, said, _ = on_terminal(*penstock, "report", *asked, seconds_max=SECONDS_MAX)
    assert status == 1, said
    assert "1 lost" in said and "slow consumers: consumer:ctag1@conn:W" in said
    page = (out / "index.html").read_text(encoding="utf-8")
    for title in ("what would help", "Queue depth and alarms", "How long each stage takes"):
        assert title in page
    assert "telemetry with gaps: 3 events missing" in page
    with (out / "tables" / "alarms.csv").open(newline="", encoding="utf-8") as file:
        assert [row["alarm"] for row in csv.DictReader(file)] == ["alarm:memory"]


def test_a_place_is_the_same_one_for_tasks_that_run_elsewhere(
    java: JavaHome, tmp_path: Path
) -> None:
    """Executors have working directories of their own; a colon in a relative path is no address."""
    write_world(tmp_path / "in", World(seed=21, messages=50))
    command = (sys.executable, "-m", "penstock.cli.main", "pipeline", "run", "--input", "in")
    where = ("--tables", "at 10:30", "--master", "local-cluster[1,1,1024]")
    done = subprocess.run(
        [*command, *where], cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "tables   at 10:30: " in done.stdout
    table = existing_store(tmp_path / "at 10:30").read("bronze/messages")
    assert table is not None and len(table) > 50
