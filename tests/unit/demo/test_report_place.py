"""`penstock run --report DIR` empties what an earlier run has made there, and nothing else."""

import socket
from pathlib import Path

import pytest

from penstock.demo.main import EXIT_CANNOT_RUN, RunOptions, run


@pytest.mark.parametrize("name", ["events", "tables"])
def test_directories_of_others_stay(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """They were removed, whatever was in them."""
    mine = tmp_path / name / "mine.txt"
    mine.parent.mkdir()
    mine.write_text("keep")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        # That port ends a run before anything is started.
        options = RunOptions(port=taken.getsockname()[1], report_dir=tmp_path)
        assert run(options) == EXIT_CANNOT_RUN
        assert mine.read_text() == "keep"
        assert f"{tmp_path / name} would be emptied" in capsys.readouterr().out.replace("\n", "")


def test_its_own_are_emptied_by_the_next_run(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options = RunOptions(port=taken.getsockname()[1], report_dir=tmp_path / "report")
        assert run(options) == EXIT_CANNOT_RUN
        for name in ("events", "tables"):
            (tmp_path / "report" / name).mkdir(exist_ok=True)
            (tmp_path / "report" / name / "old.log").touch()
        assert run(options) == EXIT_CANNOT_RUN
    assert not list((tmp_path / "report").rglob("old.log"))
