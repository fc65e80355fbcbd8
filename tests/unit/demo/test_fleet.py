"""The fleet: a client that does not end when it is asked to is a fault of its own."""

import asyncio
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.demo import fleet as fleets
from penstock.demo.children import Children
from penstock.demo.fleet import Fleet
from tests.patience import PATIENCE_S, undisturbed

pytestmark = pytest.mark.slow

READS_INPUT = "import sys; print('{\"ready\": 1}', flush=True); sys.stdin.read()"
DOES_NOT_LISTEN = (
    "import sys, time; print('hangs', file=sys.stderr, flush=True); "
    "print('{\"ready\": 1}', flush=True); time.sleep(60)"
)


def test_a_client_that_has_to_be_killed_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleets, "STOP_CLIENT_SECONDS_MAX", 4.0)

    async def scene() -> list[int | None]:
        children = Children(tmp_path)
        fleet = Fleet(children, tmp_path)
        for name, program in (("quick", READS_INPUT), ("stuck", DOES_NOT_LISTEN)):
            child = await children.start(name, ("-c", program))
            await children.until(child, child.is_ready.is_set, PATIENCE_S, "ready")
            fleet.consumers.append(child)
        with pytest.raises(OperatorError, match=r"stuck did not end within 4 s .*\nhangs"):
            await fleet.stop_clients()
        return [child.exit_status for child in fleet.consumers]

    # The quick one has to be quick.
    ends = undisturbed(lambda: asyncio.run(scene()), 0.5)
    assert ends[0] == 0 and ends[1] is not None
