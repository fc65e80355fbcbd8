"""broker/settings/adaptive_settings: what the adaptive strategy aims at, changed while it runs."""

import pytest

from penstock.base.errors import OperatorError
from penstock.flow.adaptive import Adaptive
from penstock.flow.profile import ADAPTIVE, PENSTOCK
from tests.spec.stage import Stage


def test_the_aims_of_the_adaptive_strategy() -> None:
    stage = Stage(ADAPTIVE)
    settings = stage.broker.settings
    assert settings.write("adaptive.target", "8ms") == ("5ms", "8ms")
    assert settings.write("adaptive.interval", "50ms") == ("100ms", "50ms")
    strategy = stage.broker.strategy
    assert isinstance(strategy, Adaptive)
    assert (strategy.target_ns, strategy.interval_ns) == (8_000_000, 50_000_000)
    for text in ("1us", "2m"):
        with pytest.raises(OperatorError, match=r"is not within 10us\.\.1m"):
            settings.write("adaptive.target", text)


def test_a_strategy_that_does_not_adapt_says_so() -> None:
    settings = Stage(PENSTOCK).broker.settings
    assert settings.get("adaptive.target").read() == "off"
    with pytest.raises(OperatorError, match="does not adapt; start the broker with profile adap"):
        settings.write("adaptive.target", "8ms")
