"""flow/profile: the defaults by version (flow-semantics 2.7) and the strategies they make."""

import pytest

from penstock.base.errors import OperatorError
from penstock.flow.adaptive import Adaptive
from penstock.flow.credit import Credit
from penstock.flow.hop import (
    KIND_CHANNEL_QUEUE,
    KIND_CONNECTION_CHANNEL,
    KIND_NAMES,
    KIND_QUEUE_STORE,
)
from penstock.flow.profile import (
    ADAPTIVE,
    NONE,
    PENSTOCK,
    PROFILES,
    RABBITMQ_4,
    RABBITMQ_35,
    STATIC_MESSAGES_MAX,
    HopWindow,
    profile_named,
    static_profile,
)


def test_the_windows_are_those_of_the_versions() -> None:
    assert (RABBITMQ_35.credit_initial, RABBITMQ_35.credit_more_after) == (200, 50)
    assert (RABBITMQ_4.credit_initial, RABBITMQ_4.credit_more_after) == (400, 200)
    for profile in (RABBITMQ_35, RABBITMQ_4):
        assert profile.credit_bytes_initial == 0, "RabbitMQ's credit counts messages only"
        assert not profile.is_parking
        assert not profile.is_depth_aware
        assert profile.fair_bytes == 0, "RabbitMQ's queues take in the order of arrival"


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_makes_its_strategy_afresh(name: str) -> None:
    profile = profile_named(name)
    strategy = profile.strategy()
    assert strategy.name == profile.strategy_name
    assert strategy is not profile.strategy()
    assert profile.has_credit() == isinstance(strategy, Credit)


def test_windows_differ_by_kind_of_hop() -> None:
    profile = PENSTOCK.with_window(KIND_QUEUE_STORE, HopWindow(9, 3, 900, 300))
    assert profile.window_of(KIND_QUEUE_STORE) == HopWindow(9, 3, 900, 300)
    assert profile.window_of(KIND_CHANNEL_QUEUE) == PENSTOCK.channel_queue
    strategy = profile.strategy()
    assert isinstance(strategy, Credit)
    initials = [strategy.windows[kind].initial for kind in range(len(KIND_NAMES))]
    assert initials == [400, 400, 9]
    assert strategy.bytes_windows[KIND_QUEUE_STORE].more_after == 300


def test_both_hops_of_a_publish_change_together_and_the_store_stays() -> None:
    profile = RABBITMQ_4.with_messages(7, 5).with_bytes(70, 50)
    for kind in (KIND_CONNECTION_CHANNEL, KIND_CHANNEL_QUEUE):
        assert profile.window_of(kind) == HopWindow(7, 5, 70, 50)
    assert profile.queue_store == RABBITMQ_4.queue_store


def test_a_static_profile_is_ours_with_another_window_in_messages() -> None:
    for messages in (2, 50, 6400, STATIC_MESSAGES_MAX):
        profile = profile_named(f"static-{messages}")
        assert profile == static_profile(messages)
        assert profile.channel_queue.initial == profile.connection_channel.initial == messages
        assert profile.channel_queue.more_after == messages // 2
        assert profile.credit_bytes_initial == PENSTOCK.credit_bytes_initial
        assert isinstance(profile.strategy(), Credit)


def test_an_adaptive_profile_makes_its_aims_part_of_the_strategy() -> None:
    strategy = ADAPTIVE.strategy()
    assert isinstance(strategy, Adaptive)
    assert strategy.target_ns == ADAPTIVE.target_ns
    assert strategy.interval_ns == ADAPTIVE.interval_ns
    assert strategy.windows[KIND_CHANNEL_QUEUE].initial == ADAPTIVE.credit_initial


def test_an_unknown_profile_is_refused_with_the_known_ones() -> None:
    for name in (
        "rabbitmq-9",
        "static-",
        "static-1",
        "static-x",
        "static-1000001",
        "static-" + "9" * 5000,
    ):
        with pytest.raises(OperatorError, match="one of: penstock, adaptive, rabbitmq-4"):
            profile_named(name)


def test_a_profile_without_credit_has_none() -> None:
    assert not NONE.has_credit()
