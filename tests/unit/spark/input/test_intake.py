"""What is new of a growing directory is taken once, in whole lines."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.spark.input import intake
from penstock.spark.input.intake import Range, ends_of, fresh, read_range

HEADER = b'{"format":"penstock-events","version":1,"node":"n","boot_id":"b"}\n'


def marks_of(ranges: list[Range]) -> dict[str, int]:
    """How far each file will have been read, by its name."""
    return {Path(one.path).name: one.end for one in ranges}


@given(st.lists(st.binary(max_size=40), max_size=12), st.lists(st.integers(0, 400), max_size=4))
def test_every_whole_line_is_read_once(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], cuts: list[int]
) -> None:
    directory = tmp_path_factory.mktemp("in")
    lines = HEADER + b"".join(text.replace(b"\n", b" ") + b"\n" for text in texts)
    path = directory / "events-b.jsonl"
    marks: dict[str, int] = {}
    read = b""
    for cut in [*sorted(cuts), len(lines)]:
        path.write_bytes(lines[:cut])
        found = fresh(directory, marks)
        for one in found:
            data = read_range(one)
            assert data.endswith(b"\n")
            assert (one.boot_id, one.node) == ("b", "n")
            read += data
        marks.update(marks_of(found))
    assert read == lines


def test_a_large_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "RANGE_BYTES", 100)
    monkeypatch.setattr(intake, "TAIL_BYTES", 7)
    lines = HEADER + b'{"seq":1}\n' * 300
    (tmp_path / "events-b.jsonl").write_bytes(lines + b"torn")
    marks: dict[str, int] = {}
    read = b""
    rounds = 0
    while True:
        found = fresh(tmp_path, marks, 1000)
        if not found:
            break
        rounds += 1
        # A batch that is run again has the same ranges.
        assert fresh(tmp_path, marks, 10**9, marks_of(found)) == found
        read += b"".join(read_range(one) for one in found)
        marks.update(marks_of(found))
    assert read == lines
    assert rounds == 3


def test_a_file_that_is_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events-b.jsonl").write_bytes(HEADER)
    ends = ends_of(tmp_path)
    assert ends == {"events-b.jsonl": len(HEADER)}
    for known in (None, ends):
        with pytest.raises(OperatorError, match="another file"):
            fresh(tmp_path, {"events-b.jsonl": 1000}, 10**9, known)
