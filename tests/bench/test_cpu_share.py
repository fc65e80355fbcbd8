"""A process that is limited has its part of a processor, and what it starts shares it."""

import subprocess
import sys
import time

import psutil
import pytest

from bench.cpu_share import NoShares, limited, throttled_s

SHARE = 0.2
SECONDS = 1.5
BUSY = "import os\npid = os.fork()\nwhile True: pass"


def test_a_process_and_its_children_share_one_part_and_are_free_again() -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    known = psutil.Process(process.pid)
    while not known.children():
        time.sleep(0.01)
    everything = [known, *known.children()]
    try:
        with limited([known], SHARE) as groups:
            assert len(groups) == 1
            before, began_s = worked_s(everything), time.monotonic()
            time.sleep(SECONDS)
            took_s = time.monotonic() - began_s
            share = (worked_s(everything) - before) / took_s
            assert throttled_s(groups[0]) > 0
        # One period more at either end.
        assert share <= SHARE * 1.2
        assert not groups[0].exists()
    except NoShares as fault:
        pytest.skip(str(fault))
    finally:
        for one in everything:
            one.kill()
        process.wait()


def worked_s(processes: list[psutil.Process]) -> float:
    times = [one.cpu_times() for one in processes]
    return sum(one.user + one.system for one in times)
