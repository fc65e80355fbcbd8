"""`penstock run` that is interrupted while it ends: what it has started has ended all the same."""

import os
import signal
from pathlib import Path
from threading import Timer

import pytest

from penstock.base.errors import OperatorError
from penstock.demo import children as nursery
from penstock.demo import main as demo
from penstock.demo.main import EXIT_CANNOT_RUN, RunOptions, run
from tests.patience import PATIENCE_S

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
