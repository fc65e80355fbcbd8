"""Methods: known bytes from the specification, defaults, and the refusals."""

import pytest

from penstock.base.errors import ConnectionFault
from penstock.protocol import methods as m
from penstock.protocol.methods.codec import METHODS, decode_method, encode_method, method_frame

# Written by hand from AMQP 0-9-1 (and RabbitMQ's extensions), class id and method id first.
VECTORS: list[tuple[m.Method, str]] = [
    (m.ConnectionTune(2047, 131_072, 60), "000a 001e 07ff 00020000 003c"),
    (m.ConnectionOpen(virtual_host="/"), "000a 0028 01 2f 00 00"),
    (
        m.ConnectionStartOk({}, "PLAIN", b"\0u\0p", "en_US"),
        "000a 000b 00000000 05 504c41494e 00000004 00750070 05 656e5f5553",
    ),
    (m.ConnectionBlocked("low on memory"), "000a 003c 0d" + b"low on memory".hex()),
    (m.ConnectionUpdateSecret(b"s", "r"), "000a 0046 00000001 73 01 72"),
    (m.ChannelOpenOk(), "0014 000b 00000000"),
    (m.ChannelFlow(active=True), "0014 0014 01"),
    (m.ChannelClose(404, "NO", 50, 10), "0014 0028 0194 02 4e4f 0032 000a"),
    (m.AccessRequest(), "001e 000a 05" + b"/data".hex() + "1e"),
    (m.AccessRequestOk(), "001e 000b 0001"),
    (
        m.ExchangeDeclare("e", "topic", durable=True, internal=True),
        "0028 000a 0000 01 65 05 746f706963 0a 00000000",
    ),
    (m.ExchangeUnbindOk(), "0028 0033"),
    (
        m.QueueDeclare(queue="q", durable=True, no_wait=True, arguments={"x-max-length": 9}),
        "0032 000a 0000 01 71 12 00000012 0c 782d6d61782d6c656e677468 49 00000009",
    ),
    (m.QueueDeclareOk("q", 3, 1), "0032 000b 01 71 00000003 00000001"),
    (m.QueueUnbind("q", "e", "k"), "0032 0032 0000 01 71 01 65 01 6b 00000000"),
    (m.BasicQos(prefetch_count=10, global_=True), "003c 000a 00000000 000a 01"),
    (m.BasicConsume("q", no_ack=True), "003c 0014 0000 01 71 00 02 00000000"),
    (m.BasicPublish("e", "k", mandatory=True), "003c 0028 0000 01 65 01 6b 01"),
    (m.BasicDeliver("t", 7, True, "", "q"), "003c 003c 01 74 0000000000000007 01 00 01 71"),
    (m.BasicGetOk(1, False, "", "q", 5), "003c 0047 0000000000000001 00 00 01 71 00000005"),
    (m.BasicAck(2**64 - 1, multiple=True), "003c 0050 ffffffffffffffff 01"),
    (m.BasicNack(1, multiple=False, requeue=True), "003c 0078 0000000000000001 02"),
    (m.ConfirmSelect(no_wait=True), "0055 000a 01"),
    (m.RequestAsk("a.b", {"n": True}), "00f0 000a 03 612e62 00000004 016e 7401"),
    (m.TxCommit(), "005a 0014"),
]


@pytest.mark.parametrize(("method", "wire"), VECTORS, ids=lambda found: getattr(found, "NAME", ""))
def test_known_bytes_both_ways(method: m.Method, wire: str) -> None:
    payload = bytes.fromhex(wire)
    assert encode_method(method) == payload
    assert decode_method(payload) == method


def test_a_frame_is_the_payload_in_its_envelope() -> None:
    assert method_frame(258, m.TxSelect()) == bytes.fromhex("01 0102 00000004 005a000a ce")


@pytest.mark.parametrize("found", METHODS.values(), ids=lambda found: found.NAME)
def test_every_class_is_whole(found: type[m.Method]) -> None:
    attributes = [name for name, _ in found.FIELDS if not name.startswith("reserved_")]
    made = found()
    assert list(made.__struct_fields__) == attributes
    assert not hasattr(made, "__dict__")
    assert METHODS[found.CLASS_ID, found.METHOD_ID] is found
    class_name, method_name = found.NAME.split(".")
    assert found.__name__.lower() == class_name + method_name.replace("-", "")
    assert decode_method(encode_method(made)) == made


def test_every_method_is_there_once() -> None:
    assert len(METHODS) == 68
    assert {class_id for class_id, _ in METHODS} == {10, 20, 30, 40, 50, 60, 85, 90, 240}


def test_what_reserved_fields_hold_does_not_matter() -> None:
    payload = bytes.fromhex("000a 0028 01 2f 03 616263 01")
    assert decode_method(payload) == m.ConnectionOpen("/")


def test_unused_bits_do_not_matter() -> None:
    assert decode_method(bytes.fromhex("0014 0014 ff")) == m.ChannelFlow(True)
    assert decode_method(bytes.fromhex("0014 0014 fe")) == m.ChannelFlow(False)


@pytest.mark.parametrize("wire", ["001f 000a 00", "0032 0063", "ffff ffff", "0000 0000"])
def test_an_unknown_method_is_503(wire: str) -> None:
    payload = bytes.fromhex(wire)
    with pytest.raises(ConnectionFault, match="unknown method") as caught:
        decode_method(payload)
    assert caught.value.code == 503
    ids = (caught.value.class_id, caught.value.method_id)
    assert ids == (int.from_bytes(payload[:2], "big"), int.from_bytes(payload[2:4], "big"))


@pytest.mark.parametrize(
    ("wire", "text"),
    [
        ("", "too short"),
        ("0032 00", "too short"),
        ("0032 000a", "cannot decode queue.declare: its arguments end early"),
        ("0032 000a 0000 05 71", "end early"),
        ("000a 000b 00000000 00 ffffffff", "end early"),
        ("0032 000a 0000 01 71 00 00000001", "past the end"),
        ("0032 000a 0000 01 ff 00 00000000", "malformed UTF-8 in shortstr"),
        ("0014 0029 00", "1 bytes behind its arguments"),
    ],
)
def test_malformed_arguments_are_502(wire: str, text: str) -> None:
    with pytest.raises(ConnectionFault, match=text) as caught:
        decode_method(bytes.fromhex(wire))
    assert caught.value.code == 502


def test_a_fault_does_not_repeat_the_password() -> None:
    payload = encode_method(m.ConnectionStartOk(response=b"\0guest\0s3cret"))
    with pytest.raises(ConnectionFault) as caught:
        decode_method(payload + b"s3cret")
    assert "s3cret" not in caught.value.text


@pytest.mark.parametrize(
    ("method", "text"),
    [
        (m.QueueDeclare(queue="é" * 128), "queue.declare queue of 256 bytes is longer than 255"),
        (m.BasicAck(delivery_tag=2**64), "basic.ack delivery_tag .* does not fit 64 bits"),
        (m.BasicAck(delivery_tag=-1), "does not fit"),
        (m.ConnectionTune(channel_max=65_536), "does not fit 16 bits"),
        (m.ConnectionStart(version_major=256), "does not fit 8 bits"),
        (m.QueueDeclare(arguments={"k": 2**64}), "at most 64 bits"),
    ],
)
def test_values_no_field_can_hold_are_refused(method: m.Method, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        encode_method(method)


def test_names_of_255_bytes_round_trip() -> None:
    method = m.QueueDeclare(queue="é" * 127 + "x")
    assert decode_method(encode_method(method)) == method


@pytest.mark.parametrize(
    "method",
    [
        m.ConnectionStartOk(response=b"s3cret"),
        m.ConnectionSecureOk(response=b"s3cret"),
        m.ConnectionUpdateSecret(new_secret=b"s3cret"),
    ],
)
def test_secrets_stay_out_of_repr(method: m.Method) -> None:
    assert "s3cret" not in repr(method)


def test_two_defaults_share_no_table() -> None:
    first = m.QueueDeclare()
    first.arguments["x"] = 1
    assert m.QueueDeclare().arguments == {}
