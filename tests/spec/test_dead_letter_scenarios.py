"""Scenarios 66, 85, 113 and 114 of flow-semantics 19: limits, and dead letters under flow control.
[R] runs under rabbitmq-3.5 and rabbitmq-4, [N] under penstock."""

import pytest

from penstock.protocol import methods as m
from penstock.protocol.property_lookup import EXPIRATION
from tests.unit.broker.letter_bed import LetterBed, headers_of
from tests.unit.broker.peer import publish

ALL = pytest.mark.parametrize("profile", ["penstock", "rabbitmq-3.5", "rabbitmq-4"])
EMULATED = pytest.mark.parametrize("profile", ["rabbitmq-3.5", "rabbitmq-4"])
FLOOD = 5000
"""For 10**6: the source is drained in slices of a window, so the number changes nothing else."""


@ALL
def test_scenario_66_expiration_0_is_dead_lettered_at_once(profile: str) -> None:
    bed = LetterBed(profile=profile)
    bed.declare("dead")
    bed.declare("q", "dead")
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.peer.send(publish(1, "", "q", b"late", (EXPIRATION, b"\x010")))
    assert bed.peer.confirmed() == {1: "ack"}
    assert (bed.ready("q"), bed.bodies("dead")) == (0, [b"late"])
    assert headers_of(bed.actor("dead"))["x-first-death-reason"] == "expired"
    bed.check_books()


@ALL
def test_scenario_66_the_1001st_of_a_full_queue_is_nacked(profile: str) -> None:
    bed = LetterBed(profile=profile)
    bed.declare("q", max_length=1000, overflow="reject-publish")
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.fill("q", 1001)
    outcome = bed.peer.confirmed()
    assert outcome.pop(1001) == "nack"
    assert set(outcome.values()) == {"ack"} and len(outcome) == 1000
    assert bed.ready("q") == 1000


@ALL
def test_scenario_85_reject_publish(profile: str) -> None:
    """The 101st is nacked, or without confirms dropped and counted; nothing else is lost."""
    bed = LetterBed(profile=profile)
    actor = bed.declare("q", max_length=100, overflow="reject-publish")
    bed.fill("q", 101)
    assert bed.ready("q") == 100
    assert actor.queue_limits is not None and sum(actor.queue_limits.drops) == 1
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.fill("q", 1)
    assert bed.peer.confirmed() == {1: "nack"}
    bed.check_books()


def test_scenario_113_dlx_flood_is_bounded() -> None:
    """[N] Into a parked target goes a window and no more; the source keeps the rest, in order."""
    bed = LetterBed(profile="penstock")
    bed.declare("dead")
    bed.declare("q", "dead", message_ttl=500)
    bed.fill("q", FLOOD)
    before = bed.stored_bytes()
    bed.park("dead")
    bed.wait(5000)
    letters = bed.letters("q")
    assert (letters.count, bed.ready("q")) == (32, FLOOD - 32)
    assert len(bed.actor("dead").lanes[-1].items) == 32
    # The headers of a window are what has grown.
    assert 0 < bed.stored_bytes() - before < 32 * 512
    bed.unpark("dead")
    assert (bed.ready("q"), bed.ready("dead"), letters.count) == (0, FLOOD, 0)
    assert bed.bodies("dead") == [b"%06d" % number for number in range(FLOOD)]
    assert bed.sent("q") == {"expired": FLOOD} and bed.lost("q") == {}
    bed.check_books()


def test_scenario_113_a_deep_target_takes_a_window_and_no_more() -> None:
    """[N] A target whose consumers are too slow holds its letters back like its publishers."""
    bed = LetterBed(profile="penstock")
    dead = bed.declare("dead")
    bed.declare("q", "dead", message_ttl=500)
    bed.fill("q", FLOOD)
    dead.depth_bytes = 100_000
    bed.wait(5000)
    taken = bed.ready("dead")
    assert dead.is_deep and taken < 500
    assert bed.ready("q") == FLOOD - taken
    assert bed.letters("q").count == 32
    # A consumer of the target lets the flood on.
    bed.peer.say(1, m.BasicConsume("dead", "t", no_ack=True))
    bed.wait(1000)
    assert (bed.ready("q"), bed.ready("dead")) == (0, 0)
    assert bed.sent("q") == {"expired": FLOOD}


@EMULATED
def test_scenario_113_dlx_flood_has_no_bound_in_rabbitmq(profile: str) -> None:
    """[R] All of it goes into the mailbox of the parked target at once."""
    bed = LetterBed(profile=profile)
    bed.declare("dead")
    bed.declare("q", "dead", message_ttl=500)
    bed.fill("q", FLOOD)
    bed.park("dead")
    bed.wait(5000)
    assert bed.ready("q") == 0
    assert len(bed.actor("dead").lanes[-1].items) == FLOOD
    bed.unpark("dead")
    assert bed.ready("dead") == FLOOD
    bed.check_books()


@ALL
def test_scenario_114_a_ring_of_full_queues_does_not_freeze(profile: str) -> None:
    """a -> b -> a, both full with reject-publish: acks and gets work, and what goes round is
    dropped by the rule against cycles or refused."""
    bed = LetterBed(profile=profile)
    for name, other in (("a", "b"), ("b", "a")):
        bed.declare(name, other, max_length=10, overflow="reject-publish", message_ttl=2000)
    bed.fill("a", 12)
    bed.fill("b", 12)
    eater = bed.connect("eater")
    eater.say(1, m.BasicQos(0, 3), m.BasicConsume("a", "t"))
    assert sum(1 for one in eater.heard() if one.body) == 3
    bed.wait(1000)
    eater.say(1, m.BasicAck(1, False))
    assert len(eater.bodies()) == 1, "acks work, and deliveries go on"
    assert bed.peer.call(1, m.BasicGet("b", True), m.BasicGetOk).message_count == 9
    bed.wait(10_000)
    assert (bed.ready("a"), bed.ready("b")) == (0, 0)
    eater.say(1, m.BasicAck(4, True))
    assert bed.actor("a").unacked_count == 0
    gone = sum(sum(bed.lost(name).values()) for name in ("a", "b"))
    # 10 in each were taken; 4 of `a` went to the consumer and 1 of `b` to the get.
    assert gone == 20 - 4 - 1
    bed.check_books()


def test_scenario_114_a_ring_under_backpressure_does_not_freeze() -> None:
    """[N] Both queues keep their gates closed until a quarter is free, which a window of letters
    does not make; each has a dead message first. The ring is broken without losing any."""
    bed = LetterBed(profile="penstock")
    for name, other in (("a", "b"), ("b", "a")):
        bed.declare(name, other, max_length=400, overflow="backpressure", message_ttl=500)
    bed.fill("a", 400)
    bed.fill("b", 400)
    bed.wait(600)
    assert bed.ready("a") == bed.ready("b") == 400 - 32, "each waits for the other"
    bed.wait(30_000)
    assert (bed.ready("a"), bed.ready("b")) == (0, 0)
    assert bed.letters("a").counts.escapes + bed.letters("b").counts.escapes > 0
    # Every message died in both queues, and its second death was a cycle.
    assert bed.lost("a") == bed.lost("b") == {"cycle": 400}
    bed.check_books()
