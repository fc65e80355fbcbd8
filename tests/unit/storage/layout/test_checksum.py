"""Both checksums of the store, and versions that are unknown."""

import pytest

from penstock.base.errors import OperatorError
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.checksum import (
    HAS_CRC32C,
    VERSION_CRC32,
    VERSION_CRC32C,
    extend_of,
    log_extend_of,
)
from penstock.storage.recovery.recovery import recover
from tests.unit.storage.making import fill, flush, fresh, positions, read


def test_known_answers() -> None:
    assert extend_of(VERSION_CRC32)(0, b"123456789") == 0xCBF43926
    if HAS_CRC32C:
        assert extend_of(VERSION_CRC32C)(0, b"123456789") == 0xE3069283


def test_what_came_before_is_carried_on() -> None:
    for version in (VERSION_CRC32, VERSION_CRC32C) if HAS_CRC32C else (VERSION_CRC32,):
        extend = extend_of(version)
        assert extend(extend(0, b"1234"), b"56789") == extend(0, b"123456789")


def test_unknown_versions_are_refused() -> None:
    with pytest.raises(OperatorError, match="version 3"):
        extend_of(3)
    with pytest.raises(OperatorError, match="version 5, and this Penstock reads 1 to 4"):
        log_extend_of(5)


def test_a_store_of_the_other_checksum_is_read_and_carried_on() -> None:
    disk = SimDisk()
    log = fresh(disk, 1024)
    log.version = VERSION_CRC32
    fill(log, log.open_queue(1), 20)
    flush(log)
    assert disk.contents()["0000000001.log"][9] == VERSION_CRC32
    again = recover(disk, Dice(4), 1024, {1})
    fill(again.log, again.queues[1], 3)
    flush(again.log)
    third = recover(disk, Dice(5), 1024, {1})
    assert positions(read(third.log, third.queues[1])) == list(range(1, 24))
