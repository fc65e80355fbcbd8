"""The metadata database: formats, damage, and what is there after a cut at any byte."""

import shutil
import sqlite3
from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.vhost.catalogue_rows import (
    BindingRow,
    CatalogueChange,
    ExchangeRow,
    ParameterRow,
    StoredCatalogue,
    StoredQueue,
    UserRow,
    VhostRow,
    arguments_bytes,
    identity_bytes,
)
from penstock.server.disk.metadata_db import FORMAT, MIGRATIONS, MetadataDb
from scripts.metadata_fixture import rows

FIXTURES = Path(__file__).parents[3] / "fixtures"


def write(db: MetadataDb, *changes: CatalogueChange) -> None:
    db.apply(db.applied, changes)


def kept_rows(kept: StoredCatalogue) -> list[object]:
    return [
        *kept.vhosts,
        *kept.users,
        *kept.exchanges,
        *kept.queues,
        *kept.bindings,
        *kept.parameters,
    ]


def test_every_kind_of_row_comes_back_as_it_was(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    write(db, *(CatalogueChange(True, row) for row in rows()))
    before = kept_rows(db.read())
    assert set(before) == set(rows()) and len(before) == len(rows())
    db.close()
    again = MetadataDb(tmp_path / "m")
    assert kept_rows(again.read()) == before
    for row in rows():
        write(again, CatalogueChange(False, row))
    kept = again.read()
    assert kept_rows(kept) == [] and kept.queue_id_max == 7
    again.close()


def test_a_second_value_takes_the_place_of_the_first(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    for text in ("1", "2"):
        write(
            db,
            CatalogueChange(True, ParameterRow("/", "policy", "p", text)),
            CatalogueChange(True, UserRow("u", text, "h", text)),
            CatalogueChange(True, VhostRow("v")),
        )
    kept = db.read()
    assert [one.value for one in kept.parameters] == ["2"]
    assert [(one.password_hash, one.tags) for one in kept.users] == [("2", "2")]
    assert kept.vhosts == [VhostRow("v")]
    db.close()


def test_what_goes_takes_its_bindings_along(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")

    def binding(source: str, is_to_exchange: bool, destination: str, vhost: str) -> BindingRow:
        return BindingRow(vhost, source, is_to_exchange, destination, "k", b"")

    for vhost in ("/", "other"):
        for one in (
            binding("e", False, "n", vhost),
            binding("e", True, "n", vhost),
            binding("n", False, "q", vhost),
            binding("e", False, "q", vhost),
        ):
            write(db, CatalogueChange(True, one))
    write(db, CatalogueChange(False, StoredQueue(1, "/", "n")))
    assert len(db.read().bindings) == 7
    write(db, CatalogueChange(False, ExchangeRow("/", "n")))
    assert [one.vhost for one in db.read().bindings] == ["/"] + ["other"] * 4
    db.close()


def test_a_transaction_is_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    queue = StoredQueue(1, "/", "q")
    write(db, CatalogueChange(True, queue))
    with pytest.raises(OSError, match="UNIQUE") as caught:
        write(
            db,
            CatalogueChange(True, VhostRow("v")),
            CatalogueChange(True, StoredQueue(2, "/", "q")),
        )
    assert caught.value.errno == EIO
    assert kept_rows(db.read()) == [queue] and db.applied == 1
    db.close()


def test_a_full_disk_is_told_from_a_broken_one(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    pages = db.db.execute("PRAGMA page_count").fetchone()[0]
    db.db.execute(f"PRAGMA max_page_count = {pages}")
    big = CatalogueChange(True, ParameterRow("/", "c", "n", "x" * 100_000))
    with pytest.raises(OSError, match="full") as caught:
        write(db, big)
    assert caught.value.errno == ENOSPC and db.applied == 0
    db.db.execute("PRAGMA max_page_count = 100000")
    write(db, big)
    assert len(db.read().parameters) == 1
    db.close()


def test_a_job_out_of_order_changes_nothing(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    with pytest.raises(OSError, match="before this one") as caught:
        db.apply(1, (CatalogueChange(True, VhostRow("v")),))
    assert caught.value.errno == ENOSPC and kept_rows(db.read()) == []
    db.close()


def test_after_a_cut_at_any_byte_whole_transactions_are_there(tmp_path: Path) -> None:
    """A power cut leaves some first part of the log, or zeros or older bytes behind it."""
    live = tmp_path / "live"
    live.mkdir()
    db = MetadataDb(live / "m")
    db.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    ends = [0]
    for number in range(5):
        write(
            db,
            CatalogueChange(True, StoredQueue(2 * number + 1, "/", f"q{number}")),
            CatalogueChange(True, BindingRow("/", "amq.direct", False, f"q{number}", "k", b"")),
        )
        ends.append((live / "m-wal").stat().st_size)
    whole = (live / "m-wal").read_bytes()
    base = (live / "m").read_bytes()
    db.close()
    for cut in range(0, len(whole) + 1, 2039):
        done = max(number for number, end in enumerate(ends) if end <= cut)
        for tail in (b"", bytes(4096), whole[:4096]):
            folder = tmp_path / "cut"
            folder.mkdir()
            (folder / "m").write_bytes(base)
            (folder / "m-wal").write_bytes(whole[:cut] + tail)
            again = MetadataDb(folder / "m")
            kept = again.read()
            assert [row.name for row in kept.queues] == [f"q{number}" for number in range(done)]
            assert len(kept.bindings) == done
            assert kept.queue_id_max == max(0, 2 * done - 1)
            again.close()
            shutil.rmtree(folder)


@pytest.mark.parametrize("version", range(1, FORMAT + 1))
def test_every_format_ever_written_is_read(tmp_path: Path, version: int) -> None:
    """The fixture was written by the release that had this format: scripts/metadata_fixture."""
    shutil.copy(FIXTURES / f"metadata-version-{version}.sqlite", tmp_path / "m")
    db = MetadataDb(tmp_path / "m")
    kept = db.read()
    assert set(kept_rows(kept)) == set(rows()) and kept.queue_id_max == 7
    assert db.db.execute("PRAGMA user_version").fetchone() == (FORMAT,)
    write(db, CatalogueChange(True, StoredQueue(8, "/", "new")))
    db.close()


def test_a_format_has_not_changed_since_its_fixture_was_written(tmp_path: Path) -> None:
    def schema(path: Path) -> list[tuple[str, str]]:
        with sqlite3.connect(path) as db:
            found = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()
        db.close()
        return found

    MetadataDb(tmp_path / "m").close()
    assert schema(tmp_path / "m") == schema(FIXTURES / f"metadata-version-{FORMAT}.sqlite")
    assert sorted(MIGRATIONS) == list(range(FORMAT)), "a step for every format"


def test_a_newer_format_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "m"
    MetadataDb(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {FORMAT + 1}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(OperatorError, match=rf"m has format {FORMAT + 1}, .* formats up to"):
        MetadataDb(path)
    assert path.read_bytes() == before


def test_another_programs_database_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "m"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(OperatorError, match="another program"):
        MetadataDb(path)
    assert path.read_bytes() == before


def test_a_crash_while_it_was_made_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "m").touch()
    MetadataDb(tmp_path / "m").close()


@pytest.mark.parametrize("where", ["head", "page"])
def test_damage_is_said_with_what_to_do(tmp_path: Path, where: str) -> None:
    path = tmp_path / "m"
    db = MetadataDb(path)
    for number in range(200):
        write(
            db, CatalogueChange(True, StoredQueue(number + 1, "/", f"q{number}", False, b"x" * 200))
        )
    db.close()
    data = bytearray(path.read_bytes())
    if where == "head":
        data[:16] = b"no database here"
    else:
        at = len(data) - 3 * 4096
        data[at : at + 2 * 4096] = b"\xa5" * 8192
    path.write_bytes(data)
    with pytest.raises(OperatorError, match=r"m is damaged \(.*definitions import"):
        MetadataDb(path).read()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_no_flipped_bit_is_another_catalogue(tmp_path: Path) -> None:
    """Of bits everywhere, and one of each byte around names and arguments: it is refused, or all is
    as it was."""
    path = tmp_path / "m"
    db = MetadataDb(path)
    write(db, *(CatalogueChange(True, row) for row in rows()))
    kept = db.read()
    db.close()
    data = path.read_bytes()
    bits = set(range(0, len(data) * 8, 2003))
    for text in (b"amq.", b"x-max-length", b"octets", b"policy"):
        for at in found_at(data, text):
            bits.update(8 * (at + byte) + (at + byte) % 8 for byte in range(-4, len(text)))
    refused = 0
    for bit in sorted(bit for bit in bits if 0 <= bit < 8 * len(data)):
        path.write_bytes(flipped(data, bit))
        for suffix in ("-wal", "-shm"):
            (tmp_path / f"m{suffix}").unlink(missing_ok=True)
        try:
            db = MetadataDb(path)
        except OperatorError:
            refused += 1
            continue
        try:
            again = db.read()
        except OperatorError:
            refused += 1
        else:
            assert (kept_rows(again), again.queue_id_max >= 7) == (kept_rows(kept), True), bit
        finally:
            db.close()
    assert refused > 50, "bits that count were among them"


def found_at(data: bytes, text: bytes) -> list[int]:
    found = []
    at = data.find(text)
    while at >= 0:
        found.append(at)
        at = data.find(text, at + 1)
    return found


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE queues SET name = 'other' WHERE id = 7", r"row 7 of queues \(queue_id 7\)"),
        ("UPDATE queues SET arguments = x'00'", r"of queues \(queue_id"),
        ("UPDATE bindings SET routing_key = CAST(x'ff' AS TEXT)", r"routing_key '\\udcff'"),
        ("UPDATE exchanges SET is_internal = 3", r"of exchanges \(vhost '"),
        ("UPDATE users SET tags = tags || 'administrator'", r"of users \(name '"),
        ("UPDATE vhosts SET checksum = 0", r"of vhosts \(name '"),
    ],
)
def test_a_row_that_was_changed_is_named_and_taken_out(
    tmp_path: Path, statement: str, named: str
) -> None:
    path = tmp_path / "m"
    db = MetadataDb(path)
    write(db, *(CatalogueChange(True, row) for row in rows()))
    db.close()
    with sqlite3.connect(path) as changer:
        count = changer.execute(statement).rowcount
    changer.close()
    db = MetadataDb(path)
    with pytest.raises(OperatorError, match=named) as caught:
        db.read()
    assert f"{count} of its rows" in str(caught.value) and "store mend" in str(caught.value)
    assert "scram" not in str(caught.value) and "hash" not in str(caught.value)
    out = db.take_out_damaged()
    assert len(out) == count > 0
    assert len(kept_rows(db.read())) == len(rows()) - count
    assert db.take_out_damaged() == []
    db.close()


def test_many_damaged_rows_are_counted(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    write(db, *(CatalogueChange(True, VhostRow(f"v{number}")) for number in range(100)))
    db.db.execute("UPDATE vhosts SET name = name || 'x'")
    with pytest.raises(OperatorError, match=r"100 of its rows .*; and 95 more; restore") as caught:
        db.read()
    assert len(str(caught.value)) < 1000
    db.close()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"cannot use .*--data"):
        MetadataDb(tmp_path / "nowhere" / "m")


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    db = MetadataDb(tmp_path / "m")
    write(db, CatalogueChange(True, VhostRow("v")))
    modes = {one.name: one.stat().st_mode & 0o777 for one in tmp_path.iterdir()}
    assert modes.pop("m") == 0o600 and all(mode == 0o600 for mode in modes.values())
    db.close()


def test_arguments_and_their_identity() -> None:
    assert arguments_bytes({}) == b"" and identity_bytes({}) == b""
    assert arguments_bytes({"b": 1, "a": "x"}) == arguments_bytes({"a": "x", "b": 1})
    assert identity_bytes({"a": 1}) != identity_bytes({"a": 1.0})
    assert identity_bytes({"a": b"\xff"}) != identity_bytes({"a": b"\xfe"})
