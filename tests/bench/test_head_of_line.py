"""The program that looks whether a queue stands behind another one, briefly."""

import json
from pathlib import Path

import pytest

from tests.bench.programs import output_of


@pytest.mark.slow
def test_a_queue_does_not_stand_behind_another(tmp_path: Path) -> None:
    """Its figures are the machine's; before publishes were parked by queue, they were near 0."""
    out = tmp_path / "rows.json"
    said = output_of("outside/head_of_line.py", "--smoke", "--json", str(out))
    assert "399 unconfirmed of 1000 B, 1 channel(s), slow queue 100/s" in said
    rows = json.loads(out.read_text())["rows"]
    assert len(rows) == 2
    for row in rows:
        assert row["ratios"][0] > 0.3 and row["alone"][0] > 100, row
    assert rows[0]["parked_bytes"][0] > 100_000, "what waits is on the publisher's account"
