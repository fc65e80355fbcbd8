"""What docs/testing.md shows runs as it stands there. Celery's part: tests/conformance."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.testing import Broker, VirtualHost
from tests.patience import PATIENCE_S
from tests.unit.testing.page import PAGE, section, sections_with_programs
from tests.unit.testing.test_plugin import FAST, run_pytest

TESTED_HERE = {
    "pika": 2,
    "Settings": 1,
    "What a dictionary in memory cannot test": 1,
    "asyncio: aio-pika": 1,
    "FastStream": 1,
}
"""Sections, and how many tests each has."""


def test_the_sections_run_together(tmp_path: Path) -> None:
    """One folder and one broker: their names differ, and a broker takes longer than they do."""
    files = {name: text for heading in TESTED_HERE for name, text in section(heading).items()}
    said = run_pytest(tmp_path, *FAST, **files)
    assert f"{sum(TESTED_HERE.values())} passed" in said, said


def test_the_programs_without_pytest_run(tmp_path: Path) -> None:
    said = [run_program(program, tmp_path) for program in section("Without pytest").values()]
    assert said == ["['orders']\n", "2\n"]


def run_program(program: str, folder: Path) -> str:
    """What it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_section_is_run() -> None:
    assert set(sections_with_programs()) == {*TESTED_HERE, "Celery", "Without pytest"}


@pytest.mark.parametrize("kind", [Broker, VirtualHost])
def test_the_page_names_what_there_is(kind: type) -> None:
    """Every method but those that fixtures call."""
    text = PAGE.read_text(encoding="utf-8")
    public = [one for one in vars(kind) if not one.startswith("_")]
    of_fixtures = {"start", "stop", "new_vhost", "calm", "log_bytes", "leftovers", "delete"}
    assert not [one for one in public if one not in of_fixtures and one not in text]
