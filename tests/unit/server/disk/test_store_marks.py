"""How a store has ended is known to the next start, once."""

from pathlib import Path

import pytest

from penstock.server.disk.data_directory import (
    PERSISTENT,
    is_unsynced,
    leave_clean,
    mark_unsynced,
    take_clean,
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / PERSISTENT).mkdir()
    return tmp_path


def test_clean_is_asked_once(store: Path) -> None:
    (store / PERSISTENT / "0000000001.log").touch()
    assert not take_clean(store)
    leave_clean(store)
    assert take_clean(store)
    assert not take_clean(store), "from here on it is not, until it stops"


def test_a_new_store_is_clean(store: Path) -> None:
    assert take_clean(store)


def test_unsynced_lasts_as_long_as_the_mode(store: Path) -> None:
    mark_unsynced(store, False)
    assert not is_unsynced(store)
    for _ in range(2):
        mark_unsynced(store, True)
        assert is_unsynced(store)
    mark_unsynced(store, False)
    assert not is_unsynced(store)
