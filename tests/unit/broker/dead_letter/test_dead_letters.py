"""Dead letters of one queue: window, backlog, strategies, ends, counts and books."""

from typing import Final

import pytest

from penstock.base.policy import Policy
from penstock.broker.admin import vhosts
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.channel.channel import SETTLE_COST
from penstock.broker.channel.settling import DROPPED_AT_ONCE
from penstock.broker.dead_letter.dead_letters import SENT_AT_ONCE
from penstock.broker.queue.expiry_and_limits import DEATHS_PER_TURN
from penstock.flow.profile import PROFILES
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import method_frame
from penstock.protocol.property_lookup import EXPIRATION, HEADERS
from penstock.protocol.values import Table
from penstock.queues.dead_letter import deaths_of
from penstock.queues.queue import NO_BOUND
from penstock.queues.rules import REASON_EXPIRED, REASON_REJECTED
from penstock.telemetry.events import ESCAPE
from tests.unit.broker.letter_bed import LetterBed, headers_of
from tests.unit.broker.peer import MS, TickingClock, headers_property, publish

RETRY_MS = 1000


@pytest.fixture
def bed() -> LetterBed:
    bed = LetterBed()
    bed.declare("dead")
    return bed


# -- the window and the backlog ----------------------------------------------------------------


def test_rejected_letters_beyond_the_window_wait_in_the_queue_in_order(bed: LetterBed) -> None:
    letters = bed.rejected(100, "dead")
    assert (letters.count, len(letters.late)) == (32, 68)
    assert letters.held_bytes == sum(letter.size for letter in letters.late) > 0
    assert letters.numbers()["dead_letters_waiting"] == 68
    assert bed.broker.node_account.total_stored_messages() == 100
    bed.unpark("dead")
    assert bed.bodies("dead") == [b"%06d" % number for number in range(100)]
    assert letters.held_bytes == 0 and letters.numbers() == {"dead_lettered:rejected": 100.0}
    bed.check_books()


def test_beyond_the_bound_of_the_backlog_they_are_lost_and_counted(bed: LetterBed) -> None:
    bed.declare("q", "dead")
    bed.letters("q").manager.backlog = 10
    bed.fill("q", 100)
    bed.park("dead")
    bed.reject("q", 100)
    assert bed.lost("q") == {"overflow": 100 - 32 - 10}
    bed.unpark("dead")
    assert bed.ready("dead") == 42
    bed.check_books()


def test_the_backlog_is_bounded_in_bytes_as_well(bed: LetterBed) -> None:
    bed.declare("q", "dead")
    bed.letters("q").manager.backlog_bytes = 1000
    bed.fill("q", 100)
    bed.park("dead")
    bed.reject("q", 100)
    assert 0 < bed.letters("q").held_bytes <= 1000
    assert bed.lost("q")["overflow"] == 68 - len(bed.letters("q").late)


def test_the_window_is_bounded_in_bytes_but_lets_one_pass(bed: LetterBed) -> None:
    bed.declare("q", "dead", message_ttl=10)
    bed.letters("q").manager.window_bytes = 1
    bed.park("dead")
    bed.fill("q", 5)
    bed.wait(100)
    assert (bed.letters("q").count, bed.ready("q")) == (1, 4)
    bed.unpark("dead")
    assert (bed.ready("q"), bed.ready("dead")) == (0, 5)


def test_letters_that_wait_count_for_the_depth_mark(bed: LetterBed) -> None:
    actor = bed.declare("q", "dead")
    bed.fill("q", 100)
    bed.park("dead")
    bed.reject("q", 100)
    actor.depth_bytes = 5000
    bed.fill("q", 1)
    assert actor.is_deep
    bed.unpark("dead")
    assert not actor.is_deep


def test_room_is_for_what_expires_alone(bed: LetterBed) -> None:
    bed.declare("q", "dead", message_ttl=10)
    letters = bed.letters("q")
    assert (letters.room(REASON_EXPIRED), letters.room(REASON_REJECTED)) == (32, NO_BOUND)
    bed.park("dead")
    bed.fill("q", 40)
    bed.wait(100)
    assert (letters.room(REASON_EXPIRED), letters.room(REASON_REJECTED)) == (0, NO_BOUND)


def test_a_get_finds_no_dead_message_while_there_is_no_room(bed: LetterBed) -> None:
    bed.declare("q", "dead", message_ttl=10)
    bed.park("dead")
    bed.fill("q", 40)
    bed.wait(100)
    bed.peer.call(1, m.BasicGet("q", True), m.BasicGetEmpty)
    assert bed.ready("q") == 8


def test_the_first_cause_pays_for_letters_on_their_way_and_where_they_rest(bed: LetterBed) -> None:
    writer = bed.connect("writer")
    bed.declare("q", "dead")
    bed.fill("q", 3, writer)
    bed.park("dead")
    bed.reject("q", 3)
    page = writer.connection.account
    assert (page.total_messages(), page.total_stored_messages()) == (3, 3)
    bed.unpark("dead")
    assert (page.total_messages(), page.total_stored_messages()) == (0, 3)
    bed.check_books()


def test_a_rate_limit_of_the_target_holds_its_letters(bed: LetterBed) -> None:
    bed.declare("q", "dead")
    bed.broker.settings.get("rate.queue.messages:/dead").write("10/s")
    bed.fill("q", 200)
    bed.reject("q", 200)
    assert len(bed.letters("q").late) > 100
    bed.wait(60_000)
    assert (bed.ready("dead"), len(bed.letters("q").late)) == (200, 0)
    bed.check_books()


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
@pytest.mark.parametrize("rule", ["message-ttl", "max-length"])
def test_a_great_many_die_in_slices(profile: str, rule: str) -> None:
    """Each has to be written and published, and others want their turns; a window bounds that in
    our own profiles only."""
    bed = LetterBed(profile=profile)
    bed.declare("dead")
    actor = bed.declare("q", "dead")
    bed.fill("q", 300)
    bed.broker.policy_manager.set(Policy("/", "p", "^q$", {rule: 1}, 0, "queues"), False)
    bed.clock.advance(1000 * MS)
    assert actor.queue_limits is not None
    assert actor.queue_limits.turn(10)
    # Twice a turn: before it gives, and after.
    assert 300 - actor.messages.ready_count() <= 2 * DEATHS_PER_TURN
    actor.wake()
    bed.run()
    assert bed.ready("dead") == 300 - bed.ready("q") == (300 if rule == "message-ttl" else 299)
    bed.check_books()


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-4"])
@pytest.mark.parametrize("count", [400, 4000])
def test_a_great_many_are_rejected_in_slices(profile: str, count: int) -> None:
    """By one basic.nack: no turn writes more than some hundreds of them."""
    bed = LetterBed(profile=profile)
    bed.declare("dead")
    bed.declare("q", "dead")
    bed.fill("q", count)
    reader = bed.connect("reader")
    reader.say(1, m.BasicConsume("q", "t"))
    assert len(reader.heard()) == count + 1
    reader.connection.receive(method_frame(1, m.BasicNack(0, multiple=True, requeue=False)))
    before = longest = 0
    bed.broker.scheduler.clock = TickingClock()
    while bed.broker.scheduler.run(1):
        letters = bed.letters("q")
        written = bed.sent("q").get("rejected", 0) + len(letters.late)
        longest = max(longest, written - before)
        before = written
    assert before == count and longest <= DROPPED_AT_ONCE * (1024 // SETTLE_COST + 1)
    assert len(bed.bodies("dead")) == count
    bed.check_books()


# -- where they go -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exchange", "lost", "lines"), [("nowhere", "no exchange", 1), ("amq.direct", "no route", 0)]
)
def test_an_exchange_that_leads_nowhere_loses_them_and_is_logged_once_if_missing(
    bed: LetterBed, exchange: str, lost: str, lines: int
) -> None:
    bed.rejected(3, dead_letter_exchange=exchange)
    assert bed.lost("q") == {lost: 3}
    said = [line for line in bed.log.lines if exchange in line]
    assert len(said) == lines and all("queue:/q" in one and "lost" in one for one in said)
    bed.check_books()


def test_a_fan_out_takes_one_place_and_is_over_when_all_have_it(bed: LetterBed) -> None:
    bed.declare("dead2")
    for name in ("dead", "dead2"):
        bed.peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    bed.declare("q", dead_letter_exchange="amq.fanout")
    bed.park("dead2")
    bed.fill("q", 2)
    bed.reject("q", 2)
    assert (bed.ready("dead"), bed.letters("q").count) == (2, 2)
    bed.unpark("dead2")
    assert (bed.ready("dead2"), bed.letters("q").count) == (2, 0)
    assert bed.sent("q") == {"rejected": 2}
    bed.check_books()


def test_a_headers_exchange_sees_the_headers_of_the_letter(bed: LetterBed) -> None:
    matched: Table = {"x-match": "any-with-x", "x-first-death-reason": "rejected"}
    bed.peer.call(1, m.QueueBind("dead", "amq.headers", "", arguments=matched), m.QueueBindOk)
    bed.rejected(1, dead_letter_exchange="amq.headers")
    assert bed.ready("dead") == 1


def test_a_cycle_is_dropped_and_told_once(bed: LetterBed) -> None:
    bed.declare("q", "q", message_ttl=10)
    bed.fill("q", 3)
    bed.wait(100)
    assert (bed.ready("q"), bed.lost("q")) == (0, {"cycle": 3})
    assert sum("has been in queue 'q' before" in line for line in bed.log.lines) == 1
    bed.check_books()


@pytest.mark.parametrize("is_deleted", [False, True], ids=["there", "deleted"])
def test_what_goes_to_a_stream_is_charged_until_that_has_it(
    bed: LetterBed, is_deleted: bool
) -> None:
    """A stream keeps it in files, and nothing of it rests in memory."""
    said = m.QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream"})
    bed.peer.call(1, said, m.QueueDeclareOk)
    bed.rejected(10, "s", dead_letter_exchange="", dead_letter_routing_key="s")
    assert bed.letters("q").count == 10
    if is_deleted:
        bed.remove("s")
        assert bed.lost("q") == {"refused": 10}
    else:
        bed.unpark("s")
        assert (bed.sent("q"), bed.ready("s")) == ({"rejected": 10}, 10)
    page = bed.broker.node_account
    assert (bed.stored_bytes(), page.total_stored_messages(), page.total_messages()) == (0, 0, 0)


def test_a_target_that_refuses_loses_its_copy(bed: LetterBed) -> None:
    bed.declare("small", max_length=1, overflow="reject-publish")
    bed.declare("q", "small")
    bed.fill("q", 3)
    bed.reject("q", 3)
    assert (bed.ready("small"), bed.lost("q")) == (1, {"refused": 2})
    bed.check_books()


def test_headers_that_were_never_sound_are_dropped_and_harm_nobody(bed: LetterBed) -> None:
    bed.declare("q", "dead")
    broken = b"\x00\x00\x00\x09\x07x-death\xff"
    bed.peer.send(publish(1, "", "q", b"m", (HEADERS, broken)))
    bed.reject("q", 1)
    assert bed.lost("q") == {"malformed": 1}
    bed.check_books()


def test_a_publisher_is_confirmed_whatever_becomes_of_the_letter(bed: LetterBed) -> None:
    bed.declare("q", dead_letter_exchange="nowhere")
    bed.peer.call(1, m.ConfirmSelect(), m.ConfirmSelectOk)
    bed.peer.send(publish(1, "", "q", b"m", (EXPIRATION, b"\x010")))
    assert bed.peer.confirmed() == {1: "ack"}
    assert bed.lost("q") == {"no exchange": 1}


def test_a_delivery_limit_leads_to_the_exchange(bed: LetterBed) -> None:
    bed.declare("q", "dead", delivery_limit=1)
    bed.fill("q", 1)
    for _ in range(2):
        tag = bed.peer.call(1, m.BasicGet("q", False), m.BasicGetOk).delivery_tag
        bed.peer.say(1, m.BasicReject(tag, True))
    bed.wait(100)
    assert headers_of(bed.actor("dead"))["x-first-death-reason"] == "delivery_limit"


# -- ends ----------------------------------------------------------------------------------------


def test_what_waits_is_still_sent_when_the_queue_is_deleted(bed: LetterBed) -> None:
    bed.rejected(100, "dead")
    bed.peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert not bed.actor("dead").lanes
    bed.unpark("dead")
    assert bed.ready("dead") == 100
    bed.check_books()


def test_what_waits_when_the_queue_is_deleted_is_sent_in_pieces(bed: LetterBed) -> None:
    """A backlog may be of a hundred thousand letters, and others want their turns."""
    letters = bed.rejected(500, "dead")
    bed.broker.vhosts["/"].remove_queue(bed.actor("q"))
    assert bed.ready("dead") == 32 + SENT_AT_ONCE and len(letters.late) == 500 - 32 - SENT_AT_ONCE
    assert letters.held_bytes == sum(letter.size for letter in letters.late)
    bed.unpark("dead")
    assert bed.bodies("dead") == [b"%06d" % number for number in range(500)]
    assert (letters.held_bytes, letters.count) == (0, 0)
    bed.check_books()


def test_what_waits_in_a_virtual_host_that_is_deleted_goes_with_it(bed: LetterBed) -> None:
    bed.broker.add_vhost("other")
    peer = bed.connect("tenant", vhost="other")
    rules: Table = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    peer.call(1, m.QueueDeclare("q", arguments=rules), m.QueueDeclareOk)
    peer.call(1, m.QueueDeclare("dead"), m.QueueDeclareOk)
    bed.fill("q", 500, peer)
    bed.broker.vhosts["other"].queues["dead"].is_ready = True
    for _ in range(500):
        peer.say(1, m.BasicGet("q", False))
    peer.heard()
    peer.say(1, m.BasicNack(0, True, False))
    queue = bed.broker.vhosts["other"].queues["q"]
    assert queue.queue_limits is not None and queue.queue_limits.held_bytes() > 0
    vhosts.delete(bed.broker, "other")
    bed.run()
    assert queue.queue_limits.held_bytes() == 0
    bed.check_books()


@pytest.mark.parametrize("is_crash", [False, True], ids=["deleted", "failed"])
def test_a_target_that_goes_takes_its_letters_along(bed: LetterBed, is_crash: bool) -> None:
    bed.rejected(50, "dead")
    bed.remove("dead", is_crash)
    assert bed.lost("q") == {"refused": 32, "no route": 18}
    assert bed.letters("q").count == 0
    # Declared again it is another queue, with a lane of its own.
    bed.declare("dead")
    bed.fill("q", 1)
    bed.reject("q", 1)
    assert bed.ready("dead") == 1 and len(bed.letters("q").lanes) == 1
    bed.check_books()


def test_a_connection_that_ends_leaves_its_letters_where_they_are(bed: LetterBed) -> None:
    writer = bed.connect("writer")
    bed.declare("q", "dead")
    bed.fill("q", 50, writer)
    bed.park("dead")
    bed.reject("q", 50)
    writer.hang_up()
    bed.unpark("dead")
    assert bed.ready("dead") == 50
    bed.peer.call(1, m.QueuePurge("dead"), m.QueuePurgeOk)
    assert bed.broker.node_account.total_stored_messages() == 0


def test_rejections_of_a_queue_that_is_gone_go_nowhere(bed: LetterBed) -> None:
    bed.declare("q", "dead")
    bed.fill("q", 1)
    tag = bed.peer.call(1, m.BasicGet("q", False), m.BasicGetOk).delivery_tag
    bed.peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    bed.peer.say(1, m.BasicReject(tag, False))
    assert bed.ready("dead") == 0
    bed.check_books()


# -- at least once -------------------------------------------------------------------------------


CONFIRMED: Final = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}


def test_at_least_once_rests_in_its_queue_until_it_is_confirmed(bed: LetterBed) -> None:
    bed.rejected(1, "dead", **CONFIRMED)
    assert bed.letters("q").held_bytes > 0 and bed.sent("q") == {}
    bed.unpark("dead")
    assert bed.letters("q").held_bytes == 0 and bed.sent("q") == {"rejected": 1}
    bed.check_books()


def test_at_least_once_unroutable_is_kept_and_tried_again(bed: LetterBed) -> None:
    bed.declare("q", dead_letter_exchange="amq.direct", message_ttl=10, **CONFIRMED)
    bed.fill("q", 40)
    bed.wait(5 * RETRY_MS)
    letters = bed.letters("q")
    assert (letters.count, len(letters.stuck), bed.ready("q")) == (32, 32, 8)
    assert bed.lost("q") == {}
    assert sum("kept and tried again" in line for line in bed.log.lines) == 1
    bed.check_books()
    bed.peer.call(1, m.QueueBind("dead", "amq.direct", "q"), m.QueueBindOk)
    bed.wait(2 * RETRY_MS)
    assert (bed.ready("dead"), bed.ready("q"), letters.count) == (40, 0, 0)
    bed.check_books()


@pytest.mark.parametrize(
    ("after", "lost"),
    [
        ({"dead-letter-exchange": "amq.direct"}, {"no route": 40}),
        ({"dead-letter-exchange": "", "dead-letter-routing-key": "dead"}, {}),
        ({}, {"no exchange": 40}),
    ],
    ids=["at-most-once", "another exchange", "no exchange"],
)
def test_at_least_once_ends_with_its_policy(
    bed: LetterBed, after: dict[str, object], lost: dict[str, int]
) -> None:
    """What nobody took is published once more, and stands in nobody's way for ever."""
    definition = {"dead-letter-exchange": "amq.direct", "dead-letter-strategy": "at-least-once"}
    bed.declare("q", overflow="reject-publish")
    manager = bed.broker.policy_manager
    manager.set(Policy("/", "p", "^q$", definition, 0, "queues"), False)
    bed.run()
    bed.fill("q", 40)
    bed.reject("q", 40)
    bed.wait(2 * RETRY_MS)
    assert (len(bed.letters("q").stuck), len(bed.letters("q").late)) == (32, 8)
    bed.log.lines.clear()
    if after:
        manager.set(Policy("/", "p", "^q$", after, 0, "queues"), False)
    else:
        manager.clear("/", "p", False)
    bed.wait(2 * RETRY_MS)
    letters = bed.letters("q")
    assert letters.count == letters.held_bytes == 0 and not letters.stuck and not letters.late
    assert bed.lost("q") == lost and bed.ready("dead") == (0 if lost else 40)
    assert not any("no dead-letter exchange" in line for line in bed.log.lines)
    bed.check_books()


def test_at_least_once_goes_where_a_policy_says_by_now(bed: LetterBed) -> None:
    """What waits for a route that was wrong takes the right one."""
    bed.declare("q", overflow="reject-publish")
    manager = bed.broker.policy_manager
    definition = {"dead-letter-exchange": "", "dead-letter-strategy": "at-least-once"}
    for key in ("ded", "dead"):
        definition["dead-letter-routing-key"] = key
        manager.set(Policy("/", "p", "^q$", dict(definition), 0, "queues"), False)
        bed.run()
        if key == "ded":
            bed.fill("q", 3)
            bed.reject("q", 3)
            assert len(bed.letters("q").stuck) == 3
    bed.wait(2 * RETRY_MS)
    assert (bed.sent("q"), bed.ready("dead"), bed.letters("q").count) == ({"rejected": 3}, 3, 0)
    assert bed.actor("dead").messages.ready_messages()[0].address.routing_key == "dead"
    bed.check_books()


def test_at_least_once_is_not_lost_at_a_full_target(bed: LetterBed) -> None:
    bed.declare("small", max_length=1, overflow="reject-publish")
    bed.declare("q", "small", **CONFIRMED)
    bed.fill("q", 3)
    bed.reject("q", 3)
    for _ in range(3):
        assert bed.ready("small") == 1
        bed.peer.call(1, m.BasicGet("small", True), m.BasicGetOk)
        bed.check_books()
        bed.wait(2 * RETRY_MS)
    assert bed.sent("q") == {"rejected": 3} and bed.lost("q") == {}
    assert bed.letters("q").held_bytes == 0


def test_at_least_once_goes_to_those_again_that_did_not_have_it(bed: LetterBed) -> None:
    bed.declare("small", max_length=1, overflow="reject-publish")
    for name in ("dead", "small"):
        bed.peer.call(1, m.QueueBind(name, "amq.fanout", ""), m.QueueBindOk)
    bed.rejected(2, dead_letter_exchange="amq.fanout", **CONFIRMED)
    assert (bed.ready("dead"), bed.ready("small")) == (2, 1)
    bed.peer.call(1, m.QueuePurge("small"), m.QueuePurgeOk)
    bed.wait(2 * RETRY_MS)
    assert (bed.ready("dead"), bed.ready("small")) == (2, 1)
    assert bed.sent("q") == {"rejected": 2}


def test_at_least_once_survives_the_end_of_its_target(bed: LetterBed) -> None:
    bed.rejected(40, "dead", **CONFIRMED)
    bed.remove("dead")
    assert bed.letters("q").count == 32 and bed.lost("q") == {}
    bed.declare("dead")
    bed.wait(2 * RETRY_MS)
    assert bed.ready("dead") == 40
    bed.check_books()


def test_at_least_once_has_no_bound_but_that_of_the_queue(bed: LetterBed) -> None:
    bed.declare("q", "dead", **CONFIRMED)
    bed.letters("q").manager.backlog = 0
    bed.park("dead")
    bed.fill("q", 100)
    bed.reject("q", 100)
    assert len(bed.letters("q").late) == 68 and bed.lost("q") == {}


def test_at_least_once_ends_with_its_queue(bed: LetterBed) -> None:
    letters = bed.rejected(100, dead_letter_exchange="amq.direct", **CONFIRMED)
    bed.peer.call(1, m.QueueDelete("q"), m.QueueDeleteOk)
    assert letters.numbers()["dead_letter_dropped:deleted"] == 100
    assert letters.held_bytes == 0 and letters.count == 0
    bed.wait(2 * RETRY_MS)
    bed.check_books()


def test_at_least_once_needs_reject_publish(bed: LetterBed) -> None:
    bed.declare("q", "dead", dead_letter_strategy="at-least-once")
    assert not bed.letters("q").is_confirmed
    assert any("needs x-overflow" in line for line in bed.log.lines)


# -- rings ---------------------------------------------------------------------------------------


def test_a_ring_is_broken_after_a_period_and_put_on_record(bed: LetterBed) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        bed.declare(name, other, max_length=400, overflow="backpressure", message_ttl=100)
        bed.fill(name, 400)
    bed.wait(RETRY_MS - 100)
    assert bed.letters("a").counts.escapes == 0
    bed.wait(RETRY_MS)
    assert bed.letters("a").counts.escapes + bed.letters("b").counts.escapes > 0
    deferred = [lane for name in ("a", "b") for lane in bed.actor(name).gate.deferred]
    assert len(deferred) == len(set(deferred)), "a lane that was let go is kept twice"
    kinds = [event.kind for event in bed.broker.recorder.since(0)]
    assert ESCAPE in kinds


def test_a_chain_that_waits_for_consumers_is_no_ring(bed: LetterBed) -> None:
    bed.declare("last", max_length=4, overflow="backpressure")
    bed.declare("q", "last", message_ttl=100)
    bed.fill("q", 100)
    bed.wait(10 * RETRY_MS)
    assert bed.letters("q").counts.escapes == 0
    assert (bed.ready("last"), bed.ready("q")) == (4, 100 - 4 - 32)
    bed.peer.say(1, m.BasicConsume("last", "t", no_ack=True))
    bed.wait(RETRY_MS)
    assert (bed.ready("last"), bed.ready("q")) == (0, 0)
    bed.check_books()


# -- hashed properties --------------------------------------------------------------------------


def test_letters_to_an_exchange_that_hashes_a_property_are_spread(bed: LetterBed) -> None:
    table: Table = {"hash-property": "message_id"}
    declare = m.ExchangeDeclare("hash", "x-consistent-hash", arguments=table)
    bed.peer.call(1, declare, m.ExchangeDeclareOk)
    for name in ("h1", "h2", "h3"):
        bed.declare(name)
        bed.peer.call(1, m.QueueBind(name, "hash", "1"), m.QueueBindOk)
    bed.declare("q", dead_letter_exchange="hash")
    for number in range(60):
        text = b"%02d" % number
        bed.peer.send(publish(1, "", "q", text, (0x0080, bytes([len(text)]) + text)))
    bed.reject("q", 60)
    counts = [bed.ready(name) for name in ("h1", "h2", "h3")]
    assert sum(counts) == 60 and min(counts) > 5
    bed.check_books()


@pytest.mark.parametrize("profile", PROFILES)
def test_what_a_client_publishes_again_is_counted_on_by_an_older_broker(profile: str) -> None:
    bed = LetterBed(profile=profile)
    bed.declare("q", "dead")
    dead = bed.declare("dead")
    headers: Table = {}
    counts = []
    for _ in range(3):
        bed.peer.send(publish(1, "", "q", b"x", headers_property(headers)))
        bed.reject("q", 1)
        headers = headers_of(dead)
        (death,) = deaths_of(headers)
        counts.append(death["count"])
        bed.peer.call(1, m.QueuePurge("dead"), m.QueuePurgeOk)
    assert counts == ([1, 2, 3] if profile == "rabbitmq-3.5" else [1, 1, 1])


@pytest.mark.parametrize("profile", ["penstock", "rabbitmq-3.5"])
def test_where_a_client_says_a_message_has_been_is_believed_by_an_older_broker(
    profile: str,
) -> None:
    bed = LetterBed(profile=profile)
    bed.declare("q", "dead", message_ttl=10)
    bed.declare("dead")
    death: Table = {"count": 1, "queue": "dead", "reason": "expired"}
    bed.peer.send(publish(1, "", "q", b"x", headers_property({"x-death": [death]})))
    bed.wait(100)
    assert bed.lost("q") == ({"cycle": 1} if profile == "rabbitmq-3.5" else {})
    assert bed.ready("dead") == (0 if profile == "rabbitmq-3.5" else 1)
    bed.check_books()


# -- on record ---------------------------------------------------------------------------------


def held_by(bed: LetterBed) -> list[tuple[str, str]]:
    """Who holds the dead letters of q now, and why."""
    now_ns = bed.clock.monotonic_ns()
    blocks = bed.letters("q").worker.books().snapshot(now_ns).blocks
    return [(block.peer, block.reason) for block in blocks if block.since_ns is not None]


def test_what_expires_and_finds_no_room_is_on_record_while_it_waits(bed: LetterBed) -> None:
    bed.declare("full", max_length=10, overflow="backpressure")
    bed.declare("q", "full", message_ttl=10)
    bed.fill("q", 100)
    bed.wait(2000)
    assert held_by(bed) == [("queue:/full", "expired")]
    snapshot = actor_snapshots(bed.broker)["dead:/q"]
    assert (snapshot.kind, snapshot.labels["queue"]) == ("dead", "queue:/q")
    assert snapshot.numbers["unacked"] == 32.0
    bed.peer.call(1, m.QueuePurge("full"), m.QueuePurgeOk)
    bed.wait(2000)
    while bed.ready("q"):
        bed.peer.call(1, m.QueuePurge("full"), m.QueuePurgeOk)
        bed.wait(2000)
    bed.peer.call(1, m.QueuePurge("full"), m.QueuePurgeOk)
    bed.wait(2000)
    assert held_by(bed) == []


def test_a_backlog_is_on_record_with_the_target_that_has_no_room(bed: LetterBed) -> None:
    bed.declare("full", max_length=1, overflow="backpressure")
    bed.rejected(100, dead_letter_exchange="", dead_letter_routing_key="full")
    bed.wait(2000)
    assert held_by(bed) == [("queue:/full", "late")]
    assert actor_snapshots(bed.broker)["dead:/q"].numbers["backlog_bytes"] > 0
    bed.remove("q")
    assert "dead:/q" not in actor_snapshots(bed.broker)


def test_a_target_that_refuses_is_on_record(bed: LetterBed) -> None:
    bed.declare("full", max_length=1, overflow="reject-publish")
    letters = bed.rejected(
        100,
        dead_letter_exchange="",
        dead_letter_routing_key="full",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    assert len(letters.stuck) > 0
    assert held_by(bed) == [("queue:/full", "late")]
    # They are published again from time to time, and refused again.
    for _ in range(30):
        bed.wait(100)
        assert held_by(bed) == [("queue:/full", "late")]
    snapshot = actor_snapshots(bed.broker)["dead:/q"]
    assert {block.peer for block in snapshot.blocked.blocks if block.ns > 0} == {"queue:/full"}


def test_letters_that_go_nowhere_are_held_by_nobody_and_say_why(bed: LetterBed) -> None:
    bed.rejected(
        100,
        dead_letter_exchange="gone",
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
    )
    assert held_by(bed) == [("", "late")]
    assert "'gone'" in actor_snapshots(bed.broker)["dead:/q"].labels["warned"]
