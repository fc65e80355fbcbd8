"""Entries come back as they were written, and what is no entry is refused in words."""

from random import Random

import pytest

from penstock.base.limits import CLUSTER_ENTRY_BYTES
from penstock.replication.operations import (
    CREATE,
    HEAD_BYTES,
    KINDS,
    ROW_GONE,
    ROW_KEPT,
    SYNC_FILE,
    SYNC_FOLDER,
    TRUNCATE,
    WHOLE,
    WITH_DATA,
    WITH_NUMBER,
    WRITE,
    EntryWriter,
    Operation,
    OperationFault,
    check_entry,
    decode,
    encode,
)

SOME = [
    Operation(CREATE, "vhosts/%2F-8a/persistent/0000000001.log"),
    Operation(WRITE, "vhosts/%2F-8a/persistent/0000000001.log", 700, b"record" * 50),
    Operation(SYNC_FILE, "vhosts/%2F-8a/persistent/0000000001.log"),
    Operation(TRUNCATE, "vhosts/ä-8a/streams/7", 1 << 40),
    Operation(SYNC_FOLDER, ""),
    Operation(WHOLE, "INVENTORY", 0, b""),
    Operation(ROW_KEPT, "queues", 17, b"\x95fields"),
    Operation(ROW_GONE, "queues", 0, b"\x95fields"),
]


def drawn(chance: Random) -> Operation:
    kind = chance.choice(sorted(KINDS))
    path = "/".join(chance.choice(("a", "vhosts", "ü.log", "x" * 200)) for _ in range(3))
    number = chance.randrange(1 << 50) if kind in WITH_NUMBER else 0
    data = chance.randbytes(chance.randrange(3000)) if kind in WITH_DATA else b""
    return Operation(kind, path, number, data)


def test_entries_come_back() -> None:
    assert list(decode(encode(SOME))) == SOME
    for seed in range(200):
        chance = Random(seed)
        made = [drawn(chance) for _ in range(chance.randrange(20))]
        entry = encode(made)
        assert check_entry(entry) == len(made)
        assert list(decode(entry)) == made


def test_a_writer_gathers_to_its_bound() -> None:
    writer = EntryWriter()
    entries = []
    for number in range(60):
        if not writer.has_room(100_000):
            entries.append(b"".join(writer.take()))
        writer.add(WRITE, "file", number * 100_000, bytes(100_000))
    entries.append(b"".join(writer.take()))
    assert all(len(one) <= CLUSTER_ENTRY_BYTES.default + HEAD_BYTES for one in entries)
    found = [one for entry in entries for one in decode(entry)]
    assert [one.number for one in found] == [number * 100_000 for number in range(60)]
    assert {len(one.data) for one in found} == {100_000}


def test_one_operation_may_be_larger_than_an_entry() -> None:
    writer = EntryWriter()
    assert writer.has_room(CLUSTER_ENTRY_BYTES.default * 3)
    writer.add(WHOLE, "INVENTORY", 0, bytes(CLUSTER_ENTRY_BYTES.default * 3))
    assert not writer.has_room(0)
    assert len(next(decode(b"".join(writer.take()))).data) == CLUSTER_ENTRY_BYTES.default * 3


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    entry = encode(SOME[:3])
    for bit in range(len(entry) * 8):
        flipped = bytearray(entry)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        with pytest.raises(OperationFault):
            list(decode(bytes(flipped)))
    for size in range(len(entry)):
        with pytest.raises(OperationFault):
            list(decode(entry[:size]))
    with pytest.raises(OperationFault, match="says it has"):
        list(decode(entry + b"x"))


def test_noise_is_refused() -> None:
    for seed in range(3000):
        chance = Random(seed)
        with pytest.raises(OperationFault):
            list(decode(chance.randbytes(chance.randrange(200))))


def test_noise_with_a_right_checksum_is_refused_or_sound() -> None:
    """Whoever writes entries may be wrong: then nothing but a fault comes out, whatever it is."""
    faults = 0
    for seed in range(3000):
        chance = Random(seed)
        writer = EntryWriter()
        writer.add(chance.randrange(20), chance.choice(("a", "..", "", "a\0")), chance.randrange(9))
        writer._parts.append(chance.randbytes(chance.randrange(60)))
        writer.size = sum(len(part) for part in writer._parts)
        writer.count = chance.randrange(4)
        try:
            for one in decode(b"".join(writer.take())):
                assert one.kind in KINDS
        except OperationFault:
            faults += 1
    assert faults > 2000


@pytest.mark.parametrize(
    "path",
    [
        *("", "/etc/passwd", "..", "../x", "a/../../x", "a//b", "a/", "./a", "a/."),
        *("a\0b", "a\\b", "x" * 1025),
    ],
)
def test_no_path_leads_out(path: str) -> None:
    with pytest.raises(OperationFault, match="path"):
        list(decode(encode([Operation(CREATE, path)])))


def test_what_makes_no_sense_is_named() -> None:
    with pytest.raises(OperationFault, match="kind 99"):
        list(decode(encode([Operation(99, "a")])))
    with pytest.raises(OperationFault, match="with 1 bytes of data"):
        list(decode(encode([Operation(CREATE, "a", 0, b"x")])))
    with pytest.raises(OperationFault, match="with the number 3"):
        list(decode(encode([Operation(CREATE, "a", 3)])))
    with pytest.raises(OperationFault, match="where no file has a byte"):
        list(decode(encode([Operation(WRITE, "a", (1 << 63) - 1, b"x")])))
    other = bytearray(encode(SOME))
    other[2] = 9
    with pytest.raises(OperationFault, match="version 9"):
        check_entry(bytes(other))
