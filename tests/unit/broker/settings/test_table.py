"""broker/settings/table: each setting is read as it is written, and refuses what makes no sense."""

import pytest

from penstock.base.errors import OperatorError
from penstock.flow.adaptive import Adaptive
from penstock.flow.profile import ADAPTIVE, NONE, PENSTOCK
from tests.spec.stage import Stage
from tests.unit.broker.peer import Bed

KEYS = [
    "credit.channel_queue",
    "credit.channel_queue_bytes",
    "credit.connection_channel",
    "credit.connection_channel_bytes",
    "credit.queue_store",
    "credit.queue_store_bytes",
]


def test_there_is_one_for_each_kind_and_dimension() -> None:
    settings = Stage(PENSTOCK).broker.settings
    found = [one.key for one in settings.all() if one.key.startswith("credit.")]
    assert found == sorted([*KEYS, "credit.watchdog"])
    assert settings.get("credit.channel_queue").read() == "400/200"
    assert settings.get("credit.queue_store_bytes").read() == "16MiB/4MiB"


def test_what_is_read_can_be_written() -> None:
    for profile in (PENSTOCK, ADAPTIVE):
        settings = Stage(profile).broker.settings
        for key in KEYS:
            text = settings.get(key).read()
            assert settings.write(key, text) == (text, text)


def test_one_kind_and_dimension_changes_and_no_other() -> None:
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    hand.publish("q1", 1)
    stage.settle()
    stage.broker.settings.write("credit.channel_queue", "30/10")
    lane, upstream = stage.queue_lane(hand, "q1"), stage.reader_lane(hand)
    assert (lane.window, lane.more_after, lane.window_bytes) == (30, 10, 4 << 20)
    assert upstream.window == 400
    stage.broker.settings.write("credit.connection_channel_bytes", "off")
    assert (upstream.window, upstream.window_bytes) == (400, 0)
    hand.publish("q2", 1)
    stage.settle()
    assert stage.queue_lane(hand, "q2").window == 30, "new hops have it too"


@pytest.mark.parametrize("text", ["10/50", "0/5", "ten"])
def test_a_bad_window_changes_nothing(text: str) -> None:
    stage = Stage(PENSTOCK)
    with pytest.raises(OperatorError):
        stage.broker.settings.write("credit.channel_queue", text)
    assert stage.broker.settings.get("credit.channel_queue").read() == "400/200"


def test_a_profile_without_credit_says_so() -> None:
    settings = Stage(NONE).broker.settings
    assert settings.get("credit.channel_queue").read() == "off"
    with pytest.raises(OperatorError, match="strategy 'none' has no credit"):
        settings.write("credit.channel_queue", "30/10")


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


@pytest.mark.parametrize(
    ("key", "default", "senseless"),
    [("consumer.timeout", "30m", "600000m"), ("notify.blocked", "off", "2 weeks")],
)
def test_a_setting_reads_what_was_written_if_it_makes_sense(
    key: str, default: str, senseless: str
) -> None:
    settings = Bed().broker.settings
    with pytest.raises(OperatorError):
        settings.write(key, senseless)
    assert settings.get(key).read() == default
    assert settings.write(key, "90s") == (default, "90s")
    assert settings.write(key, "off") == ("90s", "off")
    assert settings.get(key).unit == "duration or off"
