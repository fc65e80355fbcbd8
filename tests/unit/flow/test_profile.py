"""flow/profile: the defaults by version (flow-semantics 2.7) and the strategies they make."""

import pytest

from penstock.base.errors import OperatorError
from penstock.flow.credit import Credit
from penstock.flow.profile import PROFILES, RABBITMQ_4, RABBITMQ_35, profile_named


def test_the_windows_are_those_of_the_versions() -> None:
    assert (RABBITMQ_35.credit_initial, RABBITMQ_35.credit_more_after) == (200, 50)
    assert (RABBITMQ_4.credit_initial, RABBITMQ_4.credit_more_after) == (400, 200)
    for profile in (RABBITMQ_35, RABBITMQ_4):
        assert profile.credit_bytes_initial == 0, "RabbitMQ's credit counts messages only"
        assert not profile.is_parking
        assert not profile.is_depth_aware


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_makes_its_strategy(name: str) -> None:
    strategy = profile_named(name).strategy()
    assert isinstance(strategy, Credit) == (name != "none")


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OperatorError, match="one of: penstock, rabbitmq-4"):
        profile_named("rabbitmq-9")
