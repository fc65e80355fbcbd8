"""`penstock cluster try` where it cannot begin: it says why, and leaves nothing behind."""

import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.cluster import cluster
from penstock.demo.cluster_try import run_try

NO_ETCD = "/nowhere/etcd"


def test_without_an_etcd_no_directory_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(OperatorError, match="/nowhere/etcd cannot be run"):
        run_try(1.0, NO_ETCD, "", print)
    assert list(tmp_path.iterdir()) == []


def test_a_place_to_keep_things_that_is_none(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    for path in (file, file / "below"):
        with pytest.raises(OperatorError, match=f"cannot use {path} for --keep: "):
            run_try(1.0, NO_ETCD, str(path), print)
    with pytest.raises(OperatorError, match="is not empty"):
        run_try(1.0, NO_ETCD, str(tmp_path), print)


@pytest.mark.parametrize("seconds", ["-1", "1e9"])
def test_a_time_that_is_none(seconds: str) -> None:
    done = CliRunner().invoke(cluster, ["try", "--seconds", seconds, "--etcd", NO_ETCD])
    assert done.exit_code == 2 and "is not in the range" in done.output
