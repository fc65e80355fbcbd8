"""Greeting, authentication, tuning, opening and closing: RabbitMQ's rabbit_reader."""

import pytest

from penstock.base.config import UserConfig
from penstock.protocol import methods as m
from penstock.protocol.constants import PROTOCOL_HEADER
from penstock.protocol.methods.codec import method_frame
from penstock.telemetry.events import ACTOR_UP
from tests.unit.broker.peer import Bed, Peer, frame, start_ok


def greeted(bed: Bed, host: str = "127.0.0.1") -> Peer:
    """A peer that has sent the header and heard connection.start."""
    peer = Peer(bed, "peer", host)
    peer.send(PROTOCOL_HEADER)
    peer.one(m.ConnectionStart)
    return peer


def test_the_handshake_may_come_byte_by_byte(bed: Bed) -> None:
    peer = Peer(bed, "peer")
    script = PROTOCOL_HEADER + method_frame(0, start_ok())
    script += method_frame(0, m.ConnectionTuneOk(10, 8192, 0))
    script += method_frame(0, m.ConnectionOpen("/")) + method_frame(1, m.ChannelOpen())
    for index in range(len(script)):
        peer.send(script[index : index + 1])
    assert [type(one.method) for one in peer.heard()] == [
        m.ConnectionStart,
        m.ConnectionTune,
        m.ConnectionOpenOk,
        m.ChannelOpenOk,
    ]


@pytest.mark.parametrize("is_told", [True, False])
def test_wrong_credentials(is_told: bool, bed: Bed) -> None:
    """Clients that do not know 403 here get a closed socket; nobody learns what was wrong."""
    peer = greeted(bed)
    capabilities = ("authentication_failure_close",) if is_told else ()
    peer.say(0, start_ok(capabilities, password="wrong"))
    bed.later(1_000_000_000)
    if is_told:
        close = peer.one(m.ConnectionClose)
        assert close.reply_code == 403 and "wrong" not in close.reply_text
        peer.say(0, m.ConnectionCloseOk())
    assert peer.heard() == []
    assert peer.shell.is_closed
    assert "wrong" not in " ".join(bed.log.lines)


def test_guest_comes_from_this_machine_only(bed: Bed) -> None:
    peer = greeted(bed, "192.0.2.7")
    peer.say(0, start_ok())
    bed.later(1_000_000_000)
    assert peer.one(m.ConnectionClose).reply_code == 403
    assert "localhost" in bed.log.lines[0]


def test_the_password_is_forgotten_once_it_was_right() -> None:
    bed = Bed(users=(UserConfig("app", "secret"),))
    peer = greeted(bed, "192.0.2.7")
    peer.say(0, start_ok(user="app", password="secret"))
    peer.one(m.ConnectionTune)
    peer.say(0, m.ConnectionTuneOk(2047, 131_072, 0), m.ConnectionOpen("/"))
    peer.one(m.ConnectionOpenOk)
    negotiator = bed.broker.negotiators["peer"]
    assert negotiator.credentials is None


@pytest.mark.parametrize(
    "said",
    [
        (0, m.ConnectionOpen("/")),
        (0, m.ConnectionTuneOk(0, 0, 0)),
        (1, m.ChannelOpen()),
        (0, m.ConnectionUpdateSecret(b"", "")),
    ],
    ids=str,
)
def test_methods_out_of_order_end_a_handshake(said: tuple[int, m.Method], bed: Bed) -> None:
    peer = greeted(bed)
    peer.say(*said)
    assert peer.one(m.ConnectionClose).reply_code in (503, 504)
    assert peer.shell.is_closed


@pytest.mark.parametrize("identity", [0x8001_000A, 0xFFFF_FFFF, 0x0032_000A])
def test_a_method_on_a_channel_that_is_not_open_is_named_in_the_answer(
    identity: int, bed: Bed
) -> None:
    peer = Peer(bed, "peer")
    peer.open(channels=0)
    peer.send(frame(1, 5, identity.to_bytes(4, "big")))
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (
        504,
        identity >> 16,
        identity & 0xFFFF,
    )
    assert bed.log.errors == []


@pytest.mark.parametrize("number", [11, 2047, 2048, 65_535])
def test_channels_are_counted_whatever_their_numbers(number: int, bed: Bed) -> None:
    """As in RabbitMQ: a number above the negotiated one is taken while there are few."""
    peer = Peer(bed, "peer")
    peer.open(channel_max=2, channels=0)
    peer.call(number, m.ChannelOpen(), m.ChannelOpenOk)
    peer.call(1, m.ChannelOpen(), m.ChannelOpenOk)
    peer.say(2, m.ChannelOpen())
    close = peer.one(m.ConnectionClose)
    assert (close.reply_code, close.class_id, close.method_id) == (530, 20, 10)
    assert "opened (2) has reached the negotiated channel_max (2)" in close.reply_text


def test_a_channel_says_that_it_is_a_new_one() -> None:
    """Else its samples would go on where another's of the same number and address ended."""
    bed = Bed()
    peer = Peer(bed, "peer")
    peer.open(channels=1)
    peer.call(1, m.ChannelClose(200, "", 0, 0), m.ChannelCloseOk)
    peer.call(1, m.ChannelOpen(), m.ChannelOpenOk)
    events = bed.broker.recorder.since(0)
    assert [one.actor for one in events if one.kind == ACTOR_UP][1:] == ["chan:peer/1"] * 2


def test_a_frame_that_cannot_be_told_from_the_next_ends_everything(peer: Peer) -> None:
    peer.send(frame(1, 1, b"\x00\x3c"))
    assert peer.one(m.ConnectionClose).reply_code == 501
    peer.say(0, m.ConnectionCloseOk())
    assert peer.connection.is_deaf and peer.heard() == []
    peer.hang_up()


@pytest.mark.parametrize(
    ("said", "code"),
    [(frame(1, 1, b"\x00\x3c\x00\xff"), 503), (frame(1, 1, b"\x00\x32\x00\x0a\x00"), 502)],
)
def test_nothing_is_answered_between_close_and_close_ok(said: bytes, code: int, peer: Peer) -> None:
    peer.send(said)
    assert peer.one(m.ConnectionClose).reply_code == code
    peer.say(1, m.QueueDeclare("q"))
    assert peer.heard() == []
    peer.say(0, m.ConnectionCloseOk())
    assert peer.shell.is_closed


def test_a_client_of_amqp_0_8_gets_its_ticket(peer: Peer) -> None:
    """As from RabbitMQ; PyAMQP's ancestor begins every channel so."""
    assert peer.call(1, m.AccessRequest("/data"), m.AccessRequestOk).ticket == 1
    peer.call(1, m.QueueDeclare("q"), m.QueueDeclareOk)


def test_both_sides_may_close_a_channel_at_once(peer: Peer) -> None:
    peer.say(1, m.BasicAck(1, False))
    peer.one(m.ChannelClose)
    peer.say(1, m.ChannelClose(200, "", 0, 0))
    peer.one(m.ChannelCloseOk)
    peer.say(1, m.ChannelCloseOk(), m.ChannelOpen())
    peer.one(m.ChannelOpenOk)


def test_a_channel_may_not_be_opened_before_its_close_is_answered(peer: Peer) -> None:
    peer.say(1, m.BasicAck(1, False))
    peer.one(m.ChannelClose)
    peer.say(1, m.ChannelOpen())
    assert peer.one(m.ConnectionClose).reply_code == 504


def test_connections_of_one_name_are_told_apart(bed: Bed) -> None:
    bed.connect("same")
    bed.connect("same")
    assert len(bed.broker.connections) == 2
