"""A file is the old one or the new one, whatever goes wrong in between (F8)."""

import errno
import os
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.server.disk.whole_file import write_whole


def test_it_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    for data in (b"", b"one", b"x" * 3_000_000, b"two"):
        write_whole(path, data)
        assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["f"] and path.stat().st_mode & 0o777 == 0o600


def test_f08_many_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    pieces = [bytes([number]) * 50_000 for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda data: write_whole(path, data), pieces))
    assert path.read_bytes() in pieces and os.listdir(tmp_path) == ["f"]


def test_f08_on_an_error_the_old_one_stays_and_nothing_else(tmp_path: Path) -> None:
    """A limit on file sizes is a disk that is full after a short write."""
    path = tmp_path / "f"
    write_whole(path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="large") as caught:
            write_whole(path, b"new" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert caught.value.errno == errno.EFBIG
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["f"]


def test_f08_the_order_of_the_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Synced before it has its name, and the name synced: what a power cut asks for."""
    said: list[str] = []
    real_sync, real_replace = os.fsync, os.replace

    def sync(handle: int) -> None:
        said.append(f"sync {os.readlink(f'/proc/self/fd/{handle}').rpartition('/')[2][:2]}")
        real_sync(handle)

    def replace(old: str, new: str) -> None:
        said.append("replace")
        real_replace(old, new)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", replace)
    write_whole(tmp_path / "f", b"data")
    assert said == ["sync .f", "replace", f"sync {tmp_path.name[:2]}"]
