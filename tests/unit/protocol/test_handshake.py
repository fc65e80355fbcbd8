"""Negotiation: every stage with every input, headers, introductions, and tuning."""

from itertools import product

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol.handshake import (
    CAPABILITIES,
    OWN_INPUTS,
    TRANSITIONS,
    Handshake,
    HandshakeAction,
    HandshakeInput,
    HandshakeStage,
    HeaderVerdict,
    ServerIdentity,
    Tuning,
    client_capabilities,
    judge_header,
    negotiate,
    server_properties,
    start_method,
    tune_method,
    tuning_of,
)
from penstock.protocol.methods import (
    ConnectionOpen,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    QueueDeclare,
)
from penstock.protocol.methods.codec import decode_method, encode_method
from penstock.protocol.values import Table

SERVER = Tuning(channel_max=2047, frame_bytes_max=131_072, heartbeat_s=60)


def test_the_usual_conversation() -> None:
    handshake = Handshake()
    assert handshake.take(HandshakeInput.HEADER) is HandshakeAction.SEND_START
    assert handshake.take_method(ConnectionStartOk()) is HandshakeAction.AUTHENTICATE
    assert handshake.take(HandshakeInput.ACCEPTED) is HandshakeAction.SEND_TUNE
    assert handshake.take_method(ConnectionTuneOk()) is HandshakeAction.NEGOTIATE
    assert handshake.take_method(ConnectionOpen()) is HandshakeAction.ENTER_VHOST
    assert handshake.stage is HandshakeStage.OPEN


def test_a_conversation_with_challenges() -> None:
    handshake = Handshake()
    handshake.take(HandshakeInput.HEADER)
    handshake.take_method(ConnectionStartOk())
    for _ in range(3):
        assert handshake.take(HandshakeInput.CHALLENGED) is HandshakeAction.SEND_SECURE
        assert handshake.take_method(ConnectionSecureOk()) is HandshakeAction.AUTHENTICATE
    assert handshake.take(HandshakeInput.ACCEPTED) is HandshakeAction.SEND_TUNE


@pytest.mark.parametrize(("stage", "given"), list(product(HandshakeStage, HandshakeInput)))
def test_every_stage_with_every_input(stage: HandshakeStage, given: HandshakeInput) -> None:
    handshake = Handshake()
    handshake.stage = stage
    expected = TRANSITIONS.get((stage, given))
    if expected is not None:
        assert handshake.take(given) is expected[1]
        assert handshake.stage is expected[0]
    elif given in OWN_INPUTS:
        with pytest.raises(AssertionError, match="nobody asked"):
            handshake.take(given)
    else:
        with pytest.raises(ConnectionFault) as caught:
            handshake.take(given, 10, 31)
        assert caught.value.code == 504
        assert caught.value.text == f"unexpected method in connection state {stage.value}"
        assert (caught.value.class_id, caught.value.method_id) == (10, 31)
        assert handshake.stage is stage


def test_a_foreign_method_is_named_in_the_fault() -> None:
    handshake = Handshake()
    handshake.take(HandshakeInput.HEADER)
    with pytest.raises(ConnectionFault) as caught:
        handshake.take_method(QueueDeclare())
    assert (caught.value.class_id, caught.value.method_id) == (50, 10)


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        (b"AMQP\x00\x00\x09\x01", HeaderVerdict.ACCEPTED),
        (b"AMQP\x01\x01\x00\x09", HeaderVerdict.ACCEPTED),
        (b"AMQP\x00\x01\x00\x00", HeaderVerdict.OTHER_VERSION),
        (b"AMQP\x03\x01\x00\x00", HeaderVerdict.OTHER_VERSION),
        (b"GET / HT", HeaderVerdict.HTTP),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", HeaderVerdict.TLS),
        (b"\x16\x03\x01\x02\x00\x02\x00\x01", HeaderVerdict.UNKNOWN),
        (b"SSH-2.0-", HeaderVerdict.UNKNOWN),
        (b"", HeaderVerdict.UNKNOWN),
    ],
)
def test_protocol_headers(header: bytes, verdict: HeaderVerdict) -> None:
    assert judge_header(header) is verdict


def test_the_server_introduces_itself() -> None:
    identity = ServerIdentity("P", "1.2", "CPython", "(c)", "Apache", "penstock@host")
    start = start_method(server_properties(identity, ("penstock.flow",)), ("PLAIN", "AMQPLAIN"))
    assert start.mechanisms == b"PLAIN AMQPLAIN"
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.server_properties["product"] == "P"
    assert start.server_properties["cluster_name"] == "penstock@host"
    expected = dict.fromkeys((*CAPABILITIES, "penstock.flow"), True)
    assert start.server_properties["capabilities"] == expected
    assert len(CAPABILITIES) == 9
    assert decode_method(encode_method(start)) == start


def test_client_capabilities_are_those_that_are_true() -> None:
    said: Table = {"capabilities": {"basic.nack": True, "connection.blocked": False, "x": 1}}
    assert client_capabilities(said) == {"basic.nack"}
    assert client_capabilities({}) == frozenset()
    assert client_capabilities({"capabilities": "all"}) == frozenset()


def test_tuning_travels_in_methods() -> None:
    assert tune_method(SERVER) == ConnectionTune(2047, 131_072, 60)
    assert tuning_of(ConnectionTuneOk(1, 4096, 5)) == Tuning(1, 4096, 5)


@pytest.mark.parametrize(
    "client",
    [SERVER, Tuning(1, 4096, 0), Tuning(2047, 131_072, 65_535), Tuning(100, 8192, 1)],
)
def test_a_client_may_ask_for_less_and_any_heartbeat(client: Tuning) -> None:
    assert negotiate(SERVER, client) == client


def test_without_limits_of_the_server_the_client_decides() -> None:
    for client in (Tuning(0, 0, 0), Tuning(65_535, 2**32 - 1, 10)):
        assert negotiate(Tuning(0, 0, 60), client) == client


@pytest.mark.parametrize(
    ("client", "wrong", "allowed"),
    [
        (Tuning(10, 4095, 0), "frame_max = 4095 is lower than the minimum", 4096),
        (Tuning(10, 131_073, 0), "frame_max = 131073 is higher than the maximum", 131_072),
        (Tuning(10, 0, 0), "frame_max = 0 is higher than the maximum", 131_072),
        (Tuning(2048, 4096, 0), "channel_max = 2048 is higher than the maximum", 2047),
        (Tuning(0, 4096, 0), "channel_max = 0 (no limit) is higher than the maximum", 2047),
    ],
)
def test_a_client_may_not_ask_for_more(client: Tuning, wrong: str, allowed: int) -> None:
    with pytest.raises(ConnectionFault) as caught:
        negotiate(SERVER, client)
    fault = caught.value
    assert (fault.code, fault.class_id, fault.method_id) == (530, 10, 30)
    assert fault.text == f"negotiated {wrong} allowed value ({allowed})"
