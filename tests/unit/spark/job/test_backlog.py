"""How far a query is, by the logs of its checkpoint."""

import json
from pathlib import Path

from penstock.spark.input.pipeline_input import Span
from penstock.spark.job.backlog import BLAME, HOLDS, READING, Backlog


def log(checkpoint: Path, batch: int, offset: dict[str, int], *, is_done: bool) -> None:
    """As Spark writes them: a version, what the engine notes, and the offset of the source."""
    for name in ("offsets", "commits")[: 1 + is_done]:
        (checkpoint / name).mkdir(parents=True, exist_ok=True)
        (checkpoint / name / f".{batch}.tmp").touch()
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    if is_done:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def test_a_batch_counts_by_its_steps_and_tasks(tmp_path: Path) -> None:
    backlog = Backlog(Span({}, {"a": 600, "b": 400}), tmp_path)
    assert backlog.share(READING, (0, 0)) == 0.0
    log(tmp_path, 0, {"a": 500}, is_done=False)
    shares = [
        backlog.share(step, tasks)
        for step, tasks in (
            (READING, (2, 4)), (READING, (0, 0)), (HOLDS, (0, 2)), (BLAME, (1, 2)), (BLAME, (2, 2))
        )
    ]  # fmt: skip
    assert [round(share, 3) for share in shares] == [0.1, 0.1, 0.2, 0.425, 0.5]
    log(tmp_path, 0, {"a": 500}, is_done=True)
    assert backlog.share(READING, (0, 4)) == 0.5
    log(tmp_path, 1, {"a": 700, "b": 400}, is_done=True)
    assert backlog.share(READING, (0, 0)) == 1.0, "what came meanwhile is not counted"


def test_what_an_earlier_run_has_read_is_no_backlog(tmp_path: Path) -> None:
    log(tmp_path, 9, {"a": 100}, is_done=True)
    log(tmp_path, 10, {"a": 300}, is_done=True)
    assert Backlog(Span({}, {"a": 300}), tmp_path).share(READING, (0, 0)) == 1.0
    half = Backlog(Span({}, {"a": 500}), tmp_path)
    log(tmp_path, 11, {"a": 400}, is_done=True)
    assert half.share(READING, (0, 0)) == 0.5


def test_a_stream_begins_where_retention_left_it(tmp_path: Path) -> None:
    span = Span({"offset": 900}, {"offset": 1000})
    assert (span.left({}), span.left({"offset": 950, "id": "s"})) == (100, 50)
