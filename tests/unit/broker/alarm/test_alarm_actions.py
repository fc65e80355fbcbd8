"""The first row that fits decides, otherwise the broker's own action."""

import pytest

from penstock.base.config import AlarmAction
from penstock.base.errors import OperatorError
from penstock.broker.alarm.alarm_manager import AlarmActions


def test_the_first_row_that_fits_decides() -> None:
    actions = AlarmActions(
        "block",
        (
            AlarmAction("close", vhost="web", user="app"),
            AlarmAction("nack", vhost="web"),
            AlarmAction("close", user="etl"),
        ),
    )
    assert actions.of("web", "app") == "close"
    assert actions.of("web", "etl") == "nack"
    assert actions.of("/", "etl") == "close"
    assert actions.of("/", "guest") == "block"
    actions.change(" nack ")
    assert actions.of("/", "guest") == "nack" and actions.of("web", "app") == "close"


def test_another_action_is_refused_and_changes_nothing() -> None:
    with pytest.raises(OperatorError, match="alarm action 'drop' is unknown; one of: block, nack"):
        AlarmActions("drop", ())
    with pytest.raises(OperatorError, match="'stop'"):
        AlarmActions("block", (AlarmAction("stop"),))
    actions = AlarmActions("nack", ())
    with pytest.raises(OperatorError):
        actions.change("x")
    assert actions.default == "nack"
