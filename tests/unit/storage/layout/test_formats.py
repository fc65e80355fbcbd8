"""Stores of every format that was ever written are read.

The fixtures hold the files of a store in hexadecimal: a full segment with its footer, and one that
was open when the process was killed; from version 3 on that one is in a file that was another's
before, and there is a spare. They are never written again; a new format adds one.
"""

import json
from pathlib import Path

import pytest

from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.storage.layout.checksum import (
    HAS_CRC32C,
    LOG_VERSION_CRC32C,
    LOG_VERSIONS,
    VERSION_CRC32C,
)
from penstock.storage.recovery.recovery import recover
from tests.unit.storage.making import positions, read

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"


@pytest.mark.parametrize("version", LOG_VERSIONS)
def test_a_store_of_an_earlier_format(version: int) -> None:
    if version in (VERSION_CRC32C, LOG_VERSION_CRC32C) and not HAS_CRC32C:
        pytest.skip("google-crc32c is not installed")
    text = (FIXTURES / f"store-version-{version}.json").read_text(encoding="utf-8")
    disk = SimDisk({name: bytes.fromhex(data) for name, data in json.loads(text).items()})
    recovered = recover(disk, Dice(1), 4096, {1, 2})
    one = read(recovered.log, recovered.queues[1])
    assert positions(one) == [1, 4, 5, 6, 7, 8, 9, 10]
    assert [int(found.message.body()[:1]) for found in one.found[:-1]] == [0, 3, 4, 5, 6, 7, 8]
    assert [found.is_redelivered for found in one.found] == [True] * 3 + [False] * 5
    two = read(recovered.log, recovered.queues[2])
    assert positions(two) == [1], "what is not persistent stays away"
    assert two.found[0].message.body() == one.found[-1].message.body() == b"both"
    assert not recovered.report.lost
    assert not any(name.endswith(".spare") for name in disk.names())
