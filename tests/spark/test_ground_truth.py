"""The analysis against runs in which it is known what was wrong, in plain Python."""

import random
from pathlib import Path

import pytest

from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.schema.rows import Tables
from tests.spark import oracle
from tests.spark.ground_truth import SHARE_MIN, named_share
from tests.spark.injected_causes import KINDS, drawn, record
from tests.spark.oracle_input import EventLog, TraceLog, read_events

RUNS_OF_EACH = 6


def analysed(log: EventLog) -> Tables:
    return oracle.analyse(log, TraceLog((), 0), BUCKET_NS)


def unbalanced(tables: Tables) -> list[tuple[int, str]]:
    """Buckets and victims whose blame is not the time they were held."""
    left = {(row.bucket_ns, row.actor): row.held_ns for row in tables.held_time}
    for row in tables.root_cause:
        key = (row.bucket_ns, row.victim)
        left[key] = left.get(key, 0) - row.blamed_ns
    return [key for key, rest_ns in left.items() if rest_ns]


@pytest.mark.parametrize("kind", KINDS)
def test_the_culprit_is_named(kind: str, tmp_path: Path) -> None:
    first = KINDS.index(kind)
    for seed in range(first, first + RUNS_OF_EACH * len(KINDS), len(KINDS)):
        culprit = drawn(seed)
        assert culprit.kind == kind
        truth = record(culprit, str(tmp_path / str(seed)))
        log = read_events(tmp_path / str(seed))
        assert log.missing_count == log.unreadable_count == 0
        tables = analysed(log)
        assert not unbalanced(tables)
        share = named_share(tables.root_cause, truth)
        assert share >= SHARE_MIN, f"{culprit}: {share:.1%}"


def test_what_is_missing_in_the_telemetry_is_counted(tmp_path: Path) -> None:
    truth = record(drawn(2), str(tmp_path))
    (path,) = tmp_path.glob("events-*.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    gone = set(random.Random(1).sample(range(2, len(lines) - 1), 40))
    kept = [line for at, line in enumerate(lines) if at not in gone]
    path.write_text("".join(kept), encoding="utf-8")
    log = read_events(tmp_path)
    assert log.missing_count == 40
    tables = analysed(log)
    assert not unbalanced(tables)
    assert named_share(tables.root_cause, truth) > 0


def test_events_that_left_the_ring_are_missing_too(tmp_path: Path) -> None:
    record(drawn(6), str(tmp_path))
    (path,) = tmp_path.glob("events-*.jsonl")
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    # What the recorder says when its ring has overtaken the file: one event for all that is lost.
    dropped = '{"seq":30,"t":1000000000,"kind":"dropped","actor":"","peer":"","reason":"",'
    path.write_text(lines[0] + dropped + '"amount":31}\n' + "".join(lines[32:]), encoding="utf-8")
    log = read_events(tmp_path)
    assert log.missing_count == 31
