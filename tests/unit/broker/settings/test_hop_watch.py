"""broker/settings/hop_watch: the watchdog over a real broker's hops."""

import pytest

from penstock.base.errors import OperatorError
from penstock.broker.settings.hop_watch import LINES_MAX, hops_of
from penstock.flow.profile import PENSTOCK, PROFILES, RABBITMQ_4, Profile
from penstock.telemetry.events import ESCAPE, HOP_STUCK
from tests.spec.stage import Hand, Stage

S_NS = 1_000_000_000


def ticks(stage: Stage, seconds: int) -> list[str]:
    lines: list[str] = []
    clock = stage.world.clock
    for _ in range(seconds):
        clock.jump(clock.now_ns + S_NS)
        lines += stage.broker.hop_watch.tick(clock.now_ns)
    return lines


def waiting(profile: Profile) -> tuple[Stage, Hand]:
    """A publisher that waits for the credit of a parked queue."""
    stage = Stage(profile)
    hand = stage.connect()[0]
    stage.park("queue:/q1")
    hand.publish("q1", profile.credit_initial + 1)
    stage.settle()
    return stage, hand


@pytest.mark.parametrize("profile", [PENSTOCK, RABBITMQ_4], ids=lambda profile: profile.name)
def test_a_parked_queue_is_named_once_after_a_minute(profile: Profile) -> None:
    stage, hand = waiting(profile)
    assert ticks(stage, 59) == []
    lines = ticks(stage, 120)
    name = f"{stage.channel(hand).identity} -> queue:/q1"
    assert [line for line in lines if line.startswith(f"{name}: no credit for 60 s")] == lines[-1:]
    assert all("queue:/q1; look at queue:/q1" in line for line in lines), "the root, on each"
    events = [one for one in stage.broker.recorder.since(0) if one.kind == HOP_STUCK]
    assert len(events) == len(lines)
    assert (events[-1].actor, events[-1].peer) == (stage.channel(hand).identity, "queue:/q1")
    assert {one.reason for one in events} == {"credit"}
    assert stage.queue_lane(hand, "q1").is_closed, "the watchdog lets nobody through"


def test_a_deep_queue_is_named_with_the_fix() -> None:
    stage = Stage(PENSTOCK)
    stage.queue("q1").depth_bytes = 1000
    hand = stage.connect()[0]
    hand.publish("q1", PENSTOCK.credit_initial + 30)
    stage.settle()
    hand.publish("q1", PENSTOCK.credit_initial + 30)
    stage.settle()
    lines = ticks(stage, 62)
    assert any("queue:/q1 (depth) -> consumers:/q1; add consumers" in line for line in lines)


@pytest.mark.parametrize("name", [name for name, one in PROFILES.items() if one.has_credit()])
def test_a_lost_grant_is_mended_and_counted(name: str) -> None:
    profile = PROFILES[name]
    stage = Stage(profile)
    hand = stage.connect()[0]
    hand.publish("q1", 1)
    stage.settle()
    lane = stage.queue_lane(hand, "q1")
    # What only a bug can do: credit is gone, and nothing is under way for it.
    lane.balance = -3
    lane.balance_bytes -= 5
    lane.settle()
    # After a check of the laws this would be an error; so nobody moves until the watchdog does.
    lines = ticks(stage, 62)
    assert len(lines) == 1
    assert "a grant was lost, which is a bug in Penstock" in lines[0]
    dog = stage.broker.hop_watch.dog
    assert (dog.lost_count, dog.stuck_count) == (1, 0)
    kinds = [one.kind for one in stage.broker.recorder.since(0) if one.kind in (HOP_STUCK, ESCAPE)]
    assert kinds == [HOP_STUCK, ESCAPE]
    assert not lane.is_closed
    assert lane.balance == lane.window
    lane.check()
    hand.publish("q1", 70)
    stage.settle()
    assert stage.ready("q1") == 71


def test_a_lost_repay_is_repaid_to_its_account() -> None:
    """In flight for ever, though the mailbox is empty."""
    stage = Stage(PENSTOCK)
    hand = stage.connect()[0]
    hand.publish("q1", 1)
    stage.settle()
    lane = stage.queue_lane(hand, "q1")
    stage.broker.strategy.charge(lane, lane.origin, int(lane.window), 100)
    assert lane.is_closed
    assert lane.origin.debt_messages == lane.window
    assert len(ticks(stage, 62)) == 1
    assert lane.origin.debt_messages == 0
    stage.settle()


def test_many_hops_are_one_matter_in_the_log_and_a_few_each_tick() -> None:
    stage = Stage(PENSTOCK)
    stage.park("queue:/q1")
    for _ in range(LINES_MAX + 5):
        stage.connect()[0].publish("q1", PENSTOCK.credit_initial + 1)
    stage.settle()
    lines = ticks(stage, 62)
    assert len(lines) == LINES_MAX + 1
    assert lines[-1] == "and 5 more hops that wait for credit without end"
    assert stage.broker.hop_watch.dog.stuck_count == LINES_MAX + 5


def test_its_patience_is_a_setting() -> None:
    stage, _ = waiting(PENSTOCK)
    settings = stage.broker.settings
    assert settings.get("credit.watchdog").read() == "1m"
    assert settings.write("credit.watchdog", "5s") == ("1m", "5s")
    assert len(ticks(stage, 7)) == 1
    with pytest.raises(OperatorError, match=r"credit\.watchdog = 0s"):
        settings.write("credit.watchdog", "0s")


def test_every_hop_is_found() -> None:
    stage = Stage(PENSTOCK)
    hands = stage.connect(2)
    hands[0].publish("q1", 1)
    hands[0].publish("q2", 1)
    stage.settle()
    names = sorted(hop.name for hop in hops_of(stage.broker.connections))
    client = stage.connection(hands[0].client).name
    assert [name for name in names if client in name] == [
        f"chan:{client}/1 -> queue:/q1",
        f"chan:{client}/1 -> queue:/q2",
        f"conn:{client} -> chan:{client}/1",
        f"conn:{client} -> chan:{client}/2",
    ]
