"""Counting system calls: what strace writes is read, and a short run counts a recv a message."""

import json
import shutil
from pathlib import Path

import pytest

from bench.system_calls import Counted, main, parse_counts, parsed
from tests.bench.programs import refuses

SUMMARY = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           sendto
 30.00    0.000300           3       100        40 recvfrom
------ ----------- ----------- --------- --------- ----------------
100.00    0.000900           4       200        40 total
"""


def test_calls_are_read_with_and_without_errors_and_their_sum_is_none_of_them() -> None:
    assert parse_counts(SUMMARY) == {"sendto": 100, "recvfrom": 100}


def test_what_seldom_happens_is_summed_and_not_shown() -> None:
    text = Counted({"sendto": 1.0, "brk": 0.001}, 0.5).text()
    assert "sendto 1.00" in text and "brk" not in text and "calls   1.00" in text


def test_options_that_make_no_sense_are_refused() -> None:
    refuses(parsed, "--only nonsense", "--only mixed")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="the load generator needs gcc")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace counts the calls")
def test_a_message_that_is_confirmed_alone_takes_a_call_to_read_it(tmp_path: Path) -> None:
    """Costs about ten seconds: two brokers, each traced twice."""
    out = tmp_path / "calls.json"
    if main(["--only", "pp", "--smoke", "--out", str(out)]) != 0:
        pytest.skip("strace may not attach here")
    found = json.loads(out.read_text(encoding="utf-8"))["rows"]["pp"]
    assert set(found) >= {"limit"} and len(found) == 2
    for counted in found.values():
        assert counted["calls"]["recvfrom"] == pytest.approx(1.0, abs=0.3)
        assert counted["calls"]["sendto"] >= 1.8
