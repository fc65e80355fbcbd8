"""Law 6: no repay may depend on bytes that only a paused socket could bring."""

from dataclasses import replace

import pytest

from penstock.base.config import Config
from penstock.flow.profile import PENSTOCK
from penstock.simulation.scenario.scenarios import simulate
from penstock.simulation.world.world import WorldSetting


@pytest.mark.parametrize("high_bytes", [3000, 1 << 25])
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_connection_in_debt_to_its_own_deep_queue_goes_on(seed: int, high_bytes: int) -> None:
    """The debt gate and the parked publish stop the socket for the same reason, and both let go."""
    profile = PENSTOCK.with_messages(20, 10).with_bytes(8000, 4000)
    profile = replace(profile, account_high_bytes=high_bytes)
    config = Config(queue_depth_bytes=3000, heartbeat_s=0)
    report = simulate("own_backlog", seed, "penstock", setting=WorldSetting(profile, config, 3))
    assert report.delivered == 200
