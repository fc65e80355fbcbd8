"""Temporary directories of a session whose process was killed."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from penstock.spark.session.scratch import OWNER, own_directory

PREFIX = "penstock-tried-"
PROGRAM = f"""
import tempfile, time
from penstock.spark.session.scratch import own_directory
tempfile.tempdir = {{folder!r}}
with own_directory({PREFIX!r}) as place:
    (place / "shuffle").mkdir()
    (place / "shuffle" / "block").write_bytes(b"rows")
    print(place, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_process_leaves_its_directory_to_the_next(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(folder=str(folder))], stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            theirs = Path(process.stdout.readline().decode().strip())
            with own_directory(PREFIX) as mine:
                assert (theirs / "shuffle" / "block").exists(), "its process lives"
                assert mine != theirs
        finally:
            process.kill()
    assert theirs.exists() and not mine.exists()
    with own_directory(PREFIX) as mine:
        assert list(folder.iterdir()) == [mine]
    assert list(folder.iterdir()) == []


def test_what_is_another_program_s_stays(folder: Path) -> None:
    other = folder / f"{PREFIX}other"
    other.mkdir()
    (other / "notes").write_bytes(b"")
    (folder / f"{PREFIX}file").write_bytes(b"")
    linked = folder / f"{PREFIX}linked"
    linked.mkdir()
    (linked / OWNER).symlink_to(other / "notes")
    with own_directory(PREFIX):
        assert (other / "notes").exists() and (linked / OWNER).is_symlink()
