"""The program about depth marks and many publishers: its verdicts, and that it runs to its end."""

import json
from pathlib import Path

import pytest

from bench.outside.many_senders import CASES, MB, Result, judged, parse_arguments
from tests.bench.programs import output_of, refuses

GOOD = Result("case", "", 10, 1, 1.0, 1.0, 1.0, 0.5, 1.0, 0.0, [])


def changed(**what: float) -> Result:
    fields = {name: getattr(GOOD, name) for name in GOOD.__slots__}
    return judged(Result(**{**fields, **what}), "penstock")


def test_what_is_missed_is_named() -> None:
    assert changed().missed == []
    assert changed(content_of_mark=1.11).missed == ["content"]
    assert changed(jain=0.94).missed == ["jain"]
    assert changed(gap_of_goal=1.01).missed == ["gap"]
    assert changed(drain_share=0.97).missed == ["drain"]
    assert changed(large_off=-0.11).missed == ["large"]


def test_a_large_publisher_is_alone_and_mixed_ones_are_halves() -> None:
    large = next(case for case in CASES if MB in case.sizes)
    sizes = [large.size_of(index) for index in range(large.count)]
    assert sizes.count(MB) == 1
    mixed = next(case for case in CASES if case.name == "10xmixed")
    assert {mixed.size_of(index) for index in range(10)} == set(mixed.sizes)


def test_a_call_that_makes_no_sense_ends_with_2() -> None:
    refuses(parse_arguments, "--only nonsense", "--seconds -1")


@pytest.mark.slow
def test_a_small_crowd_keeps_to_the_mark(tmp_path: Path) -> None:
    out = tmp_path / "seen.json"
    output_of("outside/many_senders.py", "--smoke", "--out", str(out), "--port", "0")
    (seen,) = json.loads(out.read_text())
    assert seen["content_of_mark"] <= 1.1
    assert seen["drain_share"] > 0
