"""Segments that were written once can be read for ever: one file of each format there ever was."""

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.base.cause import Cause
from penstock.simulation.machine.dice import Dice
from penstock.storage.check.findings import Findings
from penstock.storage.layout.files import write_fully
from penstock.streams.check import check_streams
from penstock.streams.chunk import Chunk
from penstock.streams.filtering import StreamFilter
from penstock.streams.handles import StreamHandles
from penstock.streams.log import Retention
from penstock.streams.memory_files import MemoryDirectory
from penstock.streams.reading import StreamRead
from penstock.streams.recovery import recover_streams

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"


def fixture(name: str) -> tuple[MemoryDirectory, list[list[str]]]:
    """The files, and body, filter value and routing key of each message."""
    found: dict[str, Any] = json.loads((FIXTURES / name).read_text(encoding="utf-8"))
    files = MemoryDirectory()
    write_fully(files.create(found["name"]), 0, bytes.fromhex(found["data"]))
    return files, found["messages"]


def chunks_of(files: MemoryDirectory) -> list[Chunk]:
    logs, report = recover_streams(files, Dice(1), {7: Retention(1 << 20)})
    assert not report.lines and not report.lost and report.cut_bytes == 0
    segment = logs[7].segments[0]
    read = StreamRead(StreamHandles(files), segment, 0)
    read.run()
    assert int(read.next) == int(logs[7].committed)
    return read.found


@pytest.mark.parametrize("name", ["stream-version-2.json", "stream-version-2-filters.json"])
def test_a_segment_of_then(name: str) -> None:
    files, expected = fixture(name)
    found = [
        [message.body().decode(), message.address.routing_key]
        for chunk in chunks_of(files)
        for message in (
            chunk.message(index, 1, 4096, Cause("somebody")) for index in range(int(chunk.count))
        )
    ]
    assert found == [[body, key] for body, _, key in expected]
    findings = Findings()
    check_streams(files, {7: "s"}, True, findings)
    assert (findings.damage_count, findings.note_count, findings.record_count) == (0, 0, 6)


def test_filters_of_then_say_what_they_said() -> None:
    chunks = chunks_of(fixture("stream-version-2-filters.json")[0])
    wanted = [StreamFilter([value], False) for value in (b"a", b"b", b"c")]
    assert [[chunk.may_have(one) for one in wanted] for chunk in chunks] == [
        [True, True, False], [False, False, True], [False, False, False],
    ]  # fmt: skip
    older = chunks_of(fixture("stream-version-2.json")[0])
    assert all(chunk.may_have(one) for chunk in older for one in wanted), "they do not say"
