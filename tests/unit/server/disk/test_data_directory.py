"""The data directory: one broker at a time, nobody else's directory, nothing touched on refusal."""

import os
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.server.disk.data_directory import LAYOUT, DataDirectory, vhost_folder


def state_of(path: Path) -> dict[str, tuple[bytes, int, int]]:
    """Every file below `path`: its bytes, mode and time of change."""
    return {
        str(one): (
            one.read_bytes() if one.is_file() else b"",
            one.stat().st_mode,
            one.stat().st_mtime_ns,
        )
        for one in [path, *sorted(path.rglob("*"))]
    }


def test_a_new_directory_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b"
    directory = DataDirectory(path, "boot")
    assert path.stat().st_mode & 0o777 == 0o700
    assert (path / "VERSION").read_text() == f"{LAYOUT}\n"
    assert (path / "lock").read_text() == f"{os.getpid()} boot\n"
    assert all(one.stat().st_mode & 0o077 == 0 for one in path.iterdir())
    directory.close()


def test_f24_a_second_broker_is_told_who_uses_it_and_touches_nothing(tmp_path: Path) -> None:
    """F24."""
    first = DataDirectory(tmp_path / "d", "one")
    first.vhost("/")
    before = state_of(tmp_path)
    with pytest.raises(OperatorError, match=rf"d is used by pid {os.getpid()}; stop that broker"):
        DataDirectory(tmp_path / "d", "two")
    assert state_of(tmp_path) == before
    first.close()
    DataDirectory(tmp_path / "d", "three").close()
    assert (tmp_path / "d" / "lock").read_text().endswith(" three\n")


def test_closing_twice_is_closing(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path / "d", "one")
    directory.close()
    directory.close()
    DataDirectory(tmp_path / "d", "two").close()


def test_a_directory_with_something_else_in_it_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"x")
    tmp_path.chmod(0o755)
    before = state_of(tmp_path)
    with pytest.raises(OperatorError, match=r"not a data directory of Penstock \(it holds photo"):
        DataDirectory(tmp_path, "boot")
    assert state_of(tmp_path) == before


def test_what_a_first_start_may_leave_behind_is_no_obstacle(tmp_path: Path) -> None:
    for name in ("lock", "lost+found", ".VERSION.x1", ".penstock-reserve"):
        (tmp_path / name).touch()
    DataDirectory(tmp_path, "boot").close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{LAYOUT + 1}\n", rf"has layout {LAYOUT + 1}, .* newer"),
        ("", "damaged"),
        ("0", "damaged"),
        ("one", "damaged"),
        ("-1", "damaged"),
        ("\u0661", "damaged"),
    ],
)
def test_an_unknown_layout_is_refused(tmp_path: Path, text: str, said: str) -> None:
    DataDirectory(tmp_path, "boot").close()
    (tmp_path / "VERSION").write_text(text, encoding="utf-8")
    with pytest.raises(OperatorError, match=said):
        DataDirectory(tmp_path, "boot")
    (tmp_path / "VERSION").write_text(f"{LAYOUT}\n")
    DataDirectory(tmp_path, "boot").close()


def test_what_is_no_directory_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(OperatorError, match=r"cannot use .*--data, or none with --memory"):
            DataDirectory(path, "boot")


NAMES = ("/", "", ".", "..", "a/b", "a%2Fb", "A/B", "ü", "x" * 255, "x" * 254 + "y", "\x00", "a b")


def test_every_virtual_host_has_a_folder_of_its_own(tmp_path: Path) -> None:
    directory = DataDirectory(tmp_path, "boot")
    folders = [directory.vhost(name) for name in NAMES]
    # Some file systems take capitals for small letters.
    assert len({str(one).lower() for one in folders}) == len(NAMES)
    for name, folder in zip(NAMES, folders, strict=True):
        assert folder.parent == tmp_path / "vhosts" and folder.name == vhost_folder(name)
        assert sorted(one.name for one in folder.iterdir()) == ["persistent", "transient"]
        assert len(folder.name.encode()) <= 255 and directory.vhost(name) == folder
    directory.close()
