"""A batch of files is the same lines whenever it is run, or it is refused."""

from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from penstock.base.errors import OperatorError
from penstock.spark.input.file_source import FileReader, Ranges

HEADER = b'{"format":"penstock-events","version":1,"node":"n","boot_id":"b"}\n'
LINES = HEADER + b'{"seq":1}\n' * 100
Planned = tuple[FileReader, Path, dict[str, int]]


@pytest.fixture
def planned(tmp_path: Path) -> Planned:
    """A reader, a file, and the end of a batch that reads all of it."""
    path = tmp_path / "events-b.jsonl"
    path.write_bytes(LINES)
    reader = FileReader(str(tmp_path), 2, 1 << 30)
    end = reader.latestOffset({}, reader.getDefaultReadLimit())
    assert end == {path.name: len(LINES)}
    return reader, path, end


def test_a_batch_is_the_same_when_its_file_has_grown(planned: Planned) -> None:
    reader, path, end = planned
    path.write_bytes(LINES + LINES)
    (part,) = reader.partitions({}, end)
    assert isinstance(part, Ranges)
    assert [(one.start, one.end) for one in part.ranges] == [(0, len(LINES))]


def test_a_file_that_became_shorter_is_refused(planned: Planned) -> None:
    """Also by a query that ends with what was there when it began."""
    reader, path, end = planned
    reader.prepareForTriggerAvailableNow()
    path.write_bytes(LINES[:500])
    with pytest.raises(OperatorError, match="has 500 bytes, and 1066 were read"):
        reader.partitions({}, end)
    with pytest.raises(OperatorError, match="it is another file"):
        reader.latestOffset({}, reader.getDefaultReadLimit())


def test_a_longer_file_of_the_same_name_is_refused(planned: Planned) -> None:
    reader, path, end = planned
    path.write_bytes(HEADER + b'{"seq":1000001}\n' * 200)
    with pytest.raises(OperatorError, match=r"read to byte 1066, where no line ends now"):
        reader.latestOffset(end, reader.getDefaultReadLimit())
    with pytest.raises(OperatorError, match="it is another file of that name"):
        reader.partitions(end, {path.name: 2000})


def test_a_file_that_is_gone_is_refused_unless_it_was_read(planned: Planned) -> None:
    reader, path, end = planned
    path.rename(path.with_suffix(".old"))
    with pytest.raises(OperatorError, match=r"events-b.jsonl is gone before it was read to byte"):
        reader.partitions({}, end)
    assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
    assert [one.ranges for one in reader.partitions(end, end) if isinstance(one, Ranges)] == [()]
