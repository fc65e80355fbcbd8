"""Wrong passwords are answered late; right ones at once."""

import pytest

from penstock.base.limits import LOGIN_FAILURES, STRANGERS, STRANGERS_PER_ADDRESS, SUSPECT_SOCKETS
from penstock.broker.session.guessing import FORGET_NS, FREE, LOGIN_DELAY_MAX_MS, Guessing
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from tests.unit.broker.peer import Bed, Peer, start_ok

MS = 1_000_000


def delays(guessing: Guessing, count: int, address: str = "a", user: str = "u") -> list[int]:
    return [guessing.failed(address, user, 0).delay_ns // MS for _ in range(count)]


def test_the_first_are_a_second_each_and_then_it_doubles() -> None:
    assert delays(Guessing(1000), FREE + 5) == [1000] * FREE + [2000, 4000, 8000, 8000, 8000]
    assert LOGIN_DELAY_MAX_MS == 8000


def test_it_counts_by_address_and_by_user() -> None:
    guessing = Guessing(1000)
    for number in range(FREE):
        guessing.failed(f"address {number}", "root", 0)
    assert guessing.failed("another", "root", 0).delay_ns == 2000 * MS
    for number in range(FREE):
        guessing.failed("10.0.0.1", f"user {number}", 0)
    assert guessing.failed("10.0.0.1", "one more", 0).delay_ns == 2000 * MS
    assert guessing.failed("10.0.0.2", "somebody", 0).delay_ns == 1000 * MS


def test_a_minute_of_quiet_is_forgiven() -> None:
    guessing = Guessing(1000)
    delays(guessing, 20)
    assert guessing.failed("a", "u", FORGET_NS - 1).delay_ns == 8000 * MS
    assert guessing.failed("a", "u", 2 * FORGET_NS).delay_ns == 1000 * MS


def test_the_table_is_bounded_and_forgets_who_was_quiet_longest() -> None:
    guessing = Guessing(1000)
    delays(guessing, 20, "first", "first")
    for number in range(LOGIN_FAILURES.default):
        guessing.failed(f"address {number}", f"user {number}", 0)
    assert len(guessing._failures) == LOGIN_FAILURES.default
    assert guessing.failed("first", "first", 0).delay_ns == 1000 * MS


def test_a_long_row_of_guesses_is_few_lines_in_the_log() -> None:
    guessing = Guessing(1000)
    said = [guessing.failed("a", "u", 0).is_said for _ in range(1000)]
    assert all(said[:FREE]) and sum(said) < FREE + 10


def test_a_suspect_has_room_for_few_strangers_and_others_for_any_number() -> None:
    guessing = Guessing(1000)
    for _ in range(SUSPECT_SOCKETS.default):
        guessing.arrived("bad")
    assert guessing.has_room("bad", 0)
    delays(guessing, FREE + 1, "bad")
    assert not guessing.has_room("bad", 0) and guessing.has_room("good", 0)
    assert guessing.has_room("bad", FORGET_NS)
    guessing.known("bad")
    assert guessing.has_room("bad", 0)
    for _ in range(SUSPECT_SOCKETS.default - 1):
        guessing.known("bad")
    assert guessing.strangers == {}


def wrong(bed: Bed, name: str, capabilities: tuple[str, ...] = ()) -> Peer:
    peer = Peer(bed, name, "10.0.0.9")
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    peer.say(0, start_ok(capabilities, password="wrong"))
    return peer


@pytest.mark.parametrize("says_why", [True, False])
def test_a_refusal_waits_and_nothing_is_heard_meanwhile(says_why: bool) -> None:
    bed = Bed()
    peer = wrong(bed, "peer", ("authentication_failure_close",) if says_why else ())
    peer.say(0, start_ok(), m.ConnectionTuneOk(0, 0, 0), m.ConnectionOpen("/"))
    bed.later(999 * MS)
    assert peer.heard() == [] and not peer.shell.is_closed
    bed.later(1 * MS)
    heard = [one.method for one in peer.heard()]
    if says_why:
        assert isinstance(heard[0], m.ConnectionClose) and heard[0].reply_code == 403
        peer.say(0, m.ConnectionCloseOk())
    else:
        assert heard == []
    assert peer.shell.is_closed and bed.broker.guessing.strangers == {}


def test_who_hangs_up_meanwhile_leaves_nothing_behind() -> None:
    bed = Bed()
    peer = wrong(bed, "peer")
    peer.hang_up()
    assert len(bed.broker.dues) == 0 and bed.broker.guessing.strangers == {}


def test_a_right_password_is_answered_at_once_whatever_was_guessed() -> None:
    bed = Bed()
    for number in range(20):
        wrong(bed, f"guess {number}")
    bed.connect("good", "127.0.0.1")
    assert bed.broker.guessing.failed_count == 20


def test_strangers_are_bounded_by_address_and_in_all() -> None:
    guessing = Guessing(1000)
    for _ in range(STRANGERS_PER_ADDRESS.default):
        guessing.arrived("10.0.0.1")
    assert not guessing.has_room("10.0.0.1", 0) and guessing.has_room("10.0.0.2", 0)
    for number in range(STRANGERS.default - STRANGERS_PER_ADDRESS.default):
        guessing.arrived(f"10.1.{number >> 8}.{number & 255}")
    assert not guessing.has_room("10.0.0.2", 0)
    guessing.known("10.0.0.1")
    assert guessing.has_room("10.0.0.2", 0) and guessing.has_room("10.0.0.1", 0)
