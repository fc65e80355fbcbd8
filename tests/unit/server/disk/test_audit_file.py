"""The audit log: lines for who did what, in files of bounded size, without secrets."""

import asyncio
import json
import os
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.base.limits import AUDIT_LINES
from penstock.protocol import methods as m
from penstock.server.disk.audit_file import OLDER, AuditFile
from penstock.server.machine.clock import SystemClock
from tests.unit.broker.peer import LogBook
from tests.unit.server.wire import Wire, running


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_who_did_what_when_and_from_where(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", SystemClock(), LogBook())
    audit.note("app\n", "10.0.0.1:5", "queue.declare", "/", {"queue": "q\n"})
    audit.write()
    (row,) = lines(audit.path)
    assert str(row.pop("at")).endswith("Z")
    assert row == {
        "user": "app\n",
        "address": "10.0.0.1:5",
        "did": "queue.declare",
        "vhost": "/",
        "what": {"queue": "q\n"},
    }
    assert audit.path.stat().st_mode & 0o777 == 0o600


def test_a_full_file_gives_way_and_the_oldest_is_forgotten(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", SystemClock(), LogBook())
    audit.bytes_max = 300
    for number in range(20):
        audit.note("u", "a", f"{number}", "/", {})
        audit.write()
    names = sorted(os.listdir(tmp_path))
    older = [f"audit.{number}.jsonl" for number in range(1, OLDER + 1)]
    assert names == [*older, "audit.jsonl"]
    assert all((tmp_path / name).stat().st_size <= 300 for name in names)
    kept = [
        row["did"] for name in [*reversed(older), "audit.jsonl"] for row in lines(tmp_path / name)
    ]
    assert kept == [str(number) for number in range(20 - len(kept), 20)]


def test_what_does_not_fit_is_counted(tmp_path: Path) -> None:
    log = LogBook()
    audit = AuditFile(tmp_path / "none" / "audit.jsonl", SystemClock(), log)
    for _ in range(AUDIT_LINES.default + 7):
        audit.note("u", "a", "queue.declare", "/", {})
    audit.write()
    audit.write()
    assert len(log.lines) == 1, "once"
    (tmp_path / "none").mkdir()
    audit.close()
    rows = lines(audit.path)
    assert len(rows) == AUDIT_LINES.default + 1
    assert rows[-1]["did"] == "lines dropped" and rows[-1]["what"] == {"count": 7}


def test_half_a_line_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", SystemClock(), LogBook())
    audit.note("u", "a", "one", "/", {})
    audit.write()
    whole = os.write
    audit.note("u", "a", "two", "/", {})
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda descriptor, data: whole(descriptor, data[:5]))
        audit.write()
    assert len(lines(audit.path)) == 1
    audit.write()
    assert [row["did"] for row in lines(audit.path)] == ["one", "two"]


def test_a_broker_in_memory_writes_it_where_it_is_told(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "who.jsonl"
        async with running(tmp_path, audit_log=str(path)) as node:
            wire = await Wire.opened(node)
            wire.say(1, m.QueueDeclare("q"))
            await wire.expect(m.QueueDeclareOk)
            await wire.close()
        assert [row["did"] for row in lines(path)] == ["queue.declare"]
        with pytest.raises(OperatorError, match="cannot write the audit log"):
            async with running(tmp_path, audit_log=str(tmp_path / "none" / "who.jsonl")):
                raise AssertionError("it cannot start")
        async with running(tmp_path) as node:
            assert node.audit is None

    asyncio.run(scenario())


def test_older_files_are_called_after_it(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "who.jsonl", SystemClock(), LogBook())
    audit.bytes_max = 10
    for _ in range(2):
        audit.note("u", "a", "one", "/", {})
        audit.write()
    assert sorted(os.listdir(tmp_path)) == ["who.1.jsonl", "who.jsonl"]
