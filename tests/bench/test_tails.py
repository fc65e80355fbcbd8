"""A ping-pong beside a load: what is wanted, and that both arrive."""

import json
import shutil
from pathlib import Path

import pytest

from bench.tails import PAUSE_US_MAX, Tail, main, parsed
from tests.bench.programs import refuses


def test_what_is_wanted_and_missed_is_said() -> None:
    assert Tail(10, 100, 1_000, 20_000, 1.0).verdict() == "as wanted"
    assert Tail(10, 100, 6_000, 20_000, 1.0).verdict() == "p99.9 above 5ms"
    both = Tail(10, 100, 6_000, PAUSE_US_MAX + 1, 1.0).verdict()
    assert both == "p99.9 above 5ms, a pause above 25ms"


def test_options_that_make_no_sense_are_refused() -> None:
    refuses(parsed, "--only nonsense", "--only chalf", "--seconds 0")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
def test_the_load_and_the_ping_pong_both_arrive(tmp_path: Path) -> None:
    """Costs about ten seconds: two brokers, two loads."""
    out = tmp_path / "tails.json"
    assert main(["--smoke", "--only", "idle,q8", "--out", str(out)]) == 0
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    for name, found in rows.items():
        assert len(found) == 2
        for tail in found.values():
            assert 0 < tail["p50_us"] <= tail["longest_us"] * 1.02
            assert (tail["rate"] > 0) == (name == "q8")
