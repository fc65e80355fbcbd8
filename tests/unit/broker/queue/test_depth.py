"""The depth mark: when a deep queue lets its publishers go on, and how much it lets in."""

import pytest

from penstock.flow.profile import PENSTOCK, Profile
from tests.spec.stage import Hand, Stage

KIB = 1024
MARK_BYTES = 64 * KIB
SMALL = PENSTOCK.with_messages(40, 20)


def held(profile: Profile) -> tuple[Stage, list[Hand]]:
    """A queue at its depth mark, and four who press on it."""
    stage = Stage(profile)
    stage.queue("q1").depth_bytes = MARK_BYTES
    pressing = [stage.connect()[0] for _ in range(4)]
    for hand in pressing:
        hand.publish_bodies("q1", [bytes(KIB)] * 100)
    stage.settle()
    assert stage.queue("q1").is_deep
    return stage, pressing


def taken(stage: Stage, count: int) -> None:
    """`count` messages leave the queue."""
    queue = stage.queue("q1")
    for _ in range(count):
        message = queue.get()
        assert message is not None
        queue.get_done(message)
    stage.settle()


def test_what_is_drained_is_let_in_and_the_queue_stays_at_its_mark() -> None:
    stage, _ = held(SMALL)
    queue = stage.queue("q1")
    before = stage.ready("q1")
    taken(stage, before - 60)
    assert queue.is_deep, "grants are still kept"
    assert queue.messages.bytes_ready <= MARK_BYTES + 8 * KIB
    assert queue.gate.deferred


def test_an_empty_queue_keeps_nothing_back() -> None:
    stage, _ = held(SMALL)
    queue = stage.queue("q1")
    for _ in range(20):
        taken(stage, stage.ready("q1"))
    assert not queue.is_deep
    assert queue.gate.is_open
    assert queue.gate.deferred == []


def test_who_has_stopped_is_owed_nothing_in_the_end() -> None:
    """Rations that nobody uses have to drain first, but never below an eighth of the mark."""
    stage, pressing = held(SMALL)
    for hand in pressing[1:]:
        hand.client.outbox = b""
    for _ in range(40):
        taken(stage, stage.ready("q1"))
    assert stage.ready("q1") == 0
    assert all(lane.balance + lane.done == 40 for lane in stage.queue("q1").lanes)


@pytest.mark.parametrize("fair_bytes", [0, 8 * KIB])
def test_every_profile_opens_a_quarter_below_the_mark(fair_bytes: int) -> None:
    stage = Stage(PENSTOCK)
    queue = stage.queue("q1")
    queue.fair_bytes = fair_bytes
    queue.depth_bytes = MARK_BYTES
    hand = stage.connect()[0]
    hand.publish_bodies("q1", [bytes(KIB)] * 65)
    stage.settle()
    assert queue.is_deep
    over = queue.messages.bytes_ready - 3 * MARK_BYTES // 4
    size = queue.messages.bytes_ready // 65
    taken(stage, over // size)
    queue.wake()
    stage.settle()
    assert queue.is_deep
    taken(stage, 1)
    queue.wake()
    stage.settle()
    assert not queue.is_deep
