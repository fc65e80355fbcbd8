"""`penstock lab` that is interrupted: its processes end with it, at once and without a word."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

LONG = ("--only", "thousand", "--strategies", "penstock,adaptive,none", "--seconds", "40")
SIMULATED = ("--sim", "--jobs", "2", *LONG)
LIVE = ("--live", *LONG)


class Lab:
    """The command in a session of its own, as a terminal has it."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.said = folder / "stderr"
        with self.said.open("wb") as errors:
            self.process = subprocess.Popen(
                [
                    *("env", "--default-signal=INT,HUP"),
                    *(sys.executable, "-m", "penstock.cli.main", "lab", *arguments),
                ],
                stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                env=os.environ | {"TMPDIR": str(folder)},
            )  # fmt: skip
        self.children: list[psutil.Process] = []

    def work(self) -> None:
        """Until it has two children that are busy."""
        until(self._is_busy, "two processes that work")

    def _is_busy(self) -> bool:
        assert self.process.poll() is None, self.said.read_text()
        self.children = psutil.Process(self.process.pid).children(recursive=True)
        busy = [one for one in self.children if spent_s(one) > 0.5]
        return len(busy) >= 2

    def ended(self) -> int:
        """Its exit status, when it and all that it has started are gone."""
        status = self.process.wait(PATIENCE_S / 3)
        gone, alive = psutil.wait_procs(self.children, PATIENCE_S / 3)
        assert not alive, f"left behind: {alive}"
        assert len(gone) == len(self.children) >= 2
        return status

    def said_nothing_else(self) -> None:
        said = self.said.read_text()
        assert "Aborted!" in said and "Traceback" not in said, said

    def close(self) -> None:
        for one in self.children:
            if one.is_running():
                one.kill()
        self.process.kill()
        self.process.wait()


def spent_s(one: psutil.Process) -> float:
    try:
        return one.cpu_times().user
    except psutil.NoSuchProcess:
        return 0.0


@pytest.fixture(params=[SIMULATED, LIVE], ids=["simulated", "live"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    running = Lab(tmp_path, *request.param)
    try:
        running.work()
        yield running
    finally:
        running.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=["ctrl-c", "closed"])
def test_what_a_terminal_says(lab: Lab, number: signal.Signals) -> None:
    """It reaches every process of the group."""
    os.killpg(lab.process.pid, number)
    assert lab.ended() == 1
    lab.said_nothing_else()


def test_a_signal_to_the_command_alone(lab: Lab) -> None:
    """As of `timeout`, or of a service."""
    lab.process.terminate()
    assert lab.ended() == 1
    lab.said_nothing_else()


def test_a_command_that_is_killed_takes_its_processes_with_it(lab: Lab) -> None:
    lab.process.kill()
    assert lab.ended() == -signal.SIGKILL
