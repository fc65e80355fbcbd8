"""`penstock run` that is interrupted, also while it ends: what it has started has ended as well."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import psutil
import pytest

from penstock.base.errors import OperatorError
from penstock.demo import children as nursery
from penstock.demo import main as demo
from penstock.demo.main import EXIT_CANNOT_RUN, RunOptions, run
from tests.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('{}', flush=True); time.sleep(600)"
)


class Failing(demo._Run):
    """Its broker does not come up, and does not listen to SIGTERM either."""

    pid = 0

    async def _start_broker(self) -> str:
        child = await self._children.start("broker", ("-c", STUBBORN))
        await self._children.until(child, child.is_ready.is_set, PATIENCE_S, "ready")
        Failing.pid = child.pid
        # While its end is waited for.
        Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
        raise OperatorError("it does not start")


def test_a_first_ctrl_c_in_the_end_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the ending, and a broker that was slow to stop went on in a session of its own."""
    monkeypatch.setattr(demo, "_Run", Failing)
    monkeypatch.setattr(nursery, "STOP_SECONDS_MAX", 3.0)
    assert run(RunOptions(report_dir=tmp_path / "report")) == EXIT_CANNOT_RUN
    with pytest.raises(ProcessLookupError):
        os.kill(Failing.pid, 0)


def _serves(process: psutil.Process) -> bool:
    """A child that has just ended has no command line any more."""
    try:
        return "serve" in process.cmdline()
    except psutil.Error:
        return False


def test_a_terminal_that_is_closed_leaves_nothing(tmp_path: Path) -> None:
    """The broker has a session of its own, which SIGHUP does not reach."""
    for package in ("pika", "aio_pika", "celery"):
        pytest.importorskip(package)
    report = str(tmp_path / "report")
    running = subprocess.Popen(
        [
            *("env", "--default-signal=INT,HUP"),
            *(sys.executable, "-m", "penstock.cli.main", "run", "--report", report),
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    started: list[psutil.Process] = []

    def is_there() -> bool:
        assert running.poll() is None
        started[:] = psutil.Process(running.pid).children(recursive=True)
        return any(map(_serves, started))

    try:
        until(is_there, "its broker")
        running.send_signal(signal.SIGHUP)
        assert running.wait(PATIENCE_S) == 130
        assert not psutil.wait_procs(started, PATIENCE_S / 6)[1]
    finally:
        running.kill()
        running.wait()
        for one in started:
            if one.is_running():
                one.kill()
