"""The program that holds the books of memory against the process, briefly."""

import json
from pathlib import Path

import pytest

from tests.bench.programs import output_of


@pytest.mark.slow
def test_it_measures_books_and_a_ramp(tmp_path: Path) -> None:
    """Its figures are the machine's; that they are there, and of the right size, is asserted."""
    out = tmp_path / "books.json"
    said = output_of("outside/memory_books.py", "--smoke", "--json", str(out))
    assert "fan-out to 20" in said
    found = json.loads(out.read_text())
    (books,) = found["books"]
    assert 25e6 < books["messages"] < 45e6, "28 MB of bodies once, not twenty times"
    assert abs(books["error"]) < 0.25
    (ramp,) = found["ramps"]
    assert ramp["foretold"] is not None and ramp["came"] is not None
