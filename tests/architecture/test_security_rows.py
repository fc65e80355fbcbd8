"""The rows F95 to F125 of docs/security.md: each has a test that is there, or a line why not; and
those that no other file has a place for."""

import ast
import re
from pathlib import Path

import pytest

from penstock.client.errors import ClientError
from penstock.client.io_blocking import connect
from penstock.server.disk.data_directory import vhost_folder
from tests.architecture.house import PACKAGE, REPOSITORY
from tests.crash.live import served

PAGE = REPOSITORY / "docs" / "security.md"
ROW = re.compile(r"^\| F(\d+) \| .+ \| (.+) \|$", re.MULTILINE)
DRAWING = ("simulation/", "perf/", "demo/", "lab/", "sweep/", "whatif/", "spark/")
"""Rooms that draw numbers for their own work: loads, simulated runs, samples."""


def test_every_row_has_a_test_or_says_why_not() -> None:
    rows = {int(number): text for number, text in ROW.findall(PAGE.read_text(encoding="utf-8"))}
    assert list(rows) == list(range(95, 126))
    for number, text in rows.items():
        named = [one for one in re.findall(r"`([^`]+)`", text) if "/" in one]
        for one in named:
            assert (REPOSITORY / one).exists(), f"F{number} names {one}, which is not there"
        assert named or text.startswith("not here: "), f"F{number} has neither test nor reason"


def test_f100_chance_that_can_be_foretold_is_for_loads_and_simulation_only() -> None:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if place.startswith(DRAWING):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            if "random" in names:
                found.append(place)
    assert found == []


@pytest.mark.parametrize("name", ["../../x", "/etc/passwd", "%" * 255, "a\0b", "..", ".", "CON"])
def test_f110_a_name_leads_nowhere_else(name: str, tmp_path: Path) -> None:
    folder = vhost_folder(name)
    made = (tmp_path / "data" / folder).resolve()
    assert made.parent == (tmp_path / "data").resolve()
    assert len(folder.encode()) <= 255 and "\0" not in folder
    made.mkdir(parents=True)


def test_f109_no_password_is_in_what_a_broker_writes(tmp_path: Path) -> None:
    """One that logs in and one that is refused: in the log, the audit log, the control socket's
    answers, and all files of the data directory."""
    secret, wrong = "correct-horse-battery", "wrong-horse-battery"
    settings = f'[[users]]\nname = "anna"\npassword = "{secret}"\n'
    data = tmp_path / "data"
    with served(data, tmp_path, settings=settings) as broker:
        address = f"127.0.0.1:{broker.port}/%2F"
        with connect(f"amqp://anna:{secret}@{address}") as connection:
            connection.channel().declare_queue("q", durable=True)
        with pytest.raises(ClientError) as refused:
            connect(f"amqp://anna:{wrong}@{address}")
        assert wrong not in str(refused.value)
        broker.stop()
    written = [tmp_path / "stderr.txt", tmp_path / "stdout.txt"]
    written += [path for path in data.rglob("*") if path.is_file()]
    assert len(written) > 5
    for path in written:
        text = path.read_bytes()
        assert secret.encode() not in text and wrong.encode() not in text, path
    assert b"anna" in (tmp_path / "stderr.txt").read_bytes(), "the refusal was told"
