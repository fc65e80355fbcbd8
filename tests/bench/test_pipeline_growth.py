"""How the pipeline grows, in smoke mode: every part runs to its end, and counts what it says."""

import json

import pytest

from bench.pipeline_growth import paper, parse_arguments
from tests.bench.programs import output_of, refuses

pytest.importorskip("pyspark", reason="pyspark is not installed")


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "nonsense", "costs --events 0", "sustained --rate -1")


def test_on_paper_what_one_task_does_alone_is_the_limit() -> None:
    costs = {"reading": 2.0, "facts": 2.0, "answers": 1.0, "reach": 0.25}
    lines = paper(costs, whole_us=0.25, serial_s=1.0, cores=2, events=2_000_000)
    # 1 s + 2 million × (0.25 + 0.25 + (2 + 2 + 1 - 2 × 0.25) / 2) µs
    assert lines[2].startswith(f"2 executors: {2_000_000 / 6.5:,.0f}/s")
    assert lines[-1].startswith("never more than 2,000,000/s")


@pytest.mark.slow
def test_every_part_runs_to_its_end() -> None:
    said = output_of("pipeline_growth.py", "all", "--smoke")
    found = json.loads(said[said.index("\n{\n") :])
    assert found["sustained"]["batches"] >= 2
    assert all(one["jvm_mb"] > 0 for one in found["memory"]["driver"].values())
    assert found["executors"]["ratio"] > 0
    assert found["costs"]["steps"]["facts"]["shuffled_bytes"] > 0
