"""Frames, channels and connections used in ways the protocol forbids.

Every code and text was recorded from RabbitMQ 3.10.8.
"""

from typing import Final

from pamqp.commands import Basic, Channel, Connection, Queue

from tests.conformance.cases import ANY_TEXT, ENDED, Case
from tests.conformance.peer import FRAME_BYTES_MAX, On
from tests.conformance.steps import CLOSE_CHANNEL, HEADER_OF_3, q, raw

RUNNING: Final = (504, "unexpected method in connection state running")
NO_METHOD: Final = (505, "expected method frame, got non method frame instead")
NO_HEADER: Final = (
    505,
    "expected content header for class 60, got non content header frame instead",
)
NO_BODY: Final = (505, "expected content body, got non content body frame instead")

CASES: Final = (
    Case("flow-off", lambda n: [Channel.Flow(active=False)], (540, "active=false")),
    Case("flow-on", lambda n: [Channel.Flow(active=True)]),
    Case("channel-open-twice", lambda n: [Channel.Open()], (504, "second 'channel.open' seen")),
    Case("channel-unknown", lambda n: [On(5, q(n))], (504, "expected 'channel.open'")),
    Case("channel-at-max", lambda n: [On(2047, Channel.Open())]),
    Case("channel-above-max", lambda n: [On(2048, Channel.Open())]),
    Case("channel-highest-number", lambda n: [On(65_535, Channel.Open())]),
    Case(
        "channel-closed-reused",
        lambda n: [On(2, Channel.Open()), On(2, CLOSE_CHANNEL), On(2, q(n))],
        (504, "expected 'channel.open'"),
    ),
    Case(
        "channel-close-and-open",
        lambda n: [On(2, Channel.Open()), On(2, CLOSE_CHANNEL), On(2, Channel.Open())],
    ),
    Case("channel-zero-method", lambda n: [On(0, q(n))], RUNNING),
    Case("channel-zero-ack", lambda n: [On(0, Basic.Ack(1))], RUNNING),
    Case("close-ok-unasked", lambda n: [On(0, Connection.CloseOk())], RUNNING),
    Case(
        "channel-connection-method", lambda n: [Connection.Open("/")], (503, "unimplemented method")
    ),
    Case("connection-open-twice", lambda n: [On(0, Connection.Open("/"))], RUNNING),
    Case(
        "connection-start-ok-late",
        lambda n: [On(0, Connection.StartOk({}, "PLAIN", "", "en_US"))],
        RUNNING,
    ),
    Case("connection-tune-ok-late", lambda n: [On(0, Connection.TuneOk(0, 4096, 0))], RUNNING),
    Case(
        "server-method-declare-ok",
        lambda n: [Queue.DeclareOk("a", 0, 0)],
        (503, "unimplemented method"),
    ),
    Case("server-method-deliver", lambda n: [Basic.Deliver("c", 1, False, "", "")], NO_HEADER),
    Case("server-method-connection-start", lambda n: [On(0, Connection.Start())], RUNNING),
    Case(
        "frame-end-wrong", lambda n: [raw(1, 1, b"\x00\x14\x00\x28\x01", b"\xcf")], (501, ANY_TEXT)
    ),
    Case("frame-type-unknown", lambda n: [raw(9, 1, b"abc")], (501, ANY_TEXT)),
    Case("frame-a-little-too-large", lambda n: [raw(3, 1, b"x" * FRAME_BYTES_MAX)], NO_METHOD),
    Case("frame-too-large", lambda n: [raw(3, 1, b"x" * (FRAME_BYTES_MAX + 1))], (501, ANY_TEXT)),
    Case("method-unknown", lambda n: [raw(1, 1, b"\x00\x32\x03\xe7")], ENDED),
    Case("class-unknown", lambda n: [raw(1, 1, b"\x03\xe7\x00\x0a")], ENDED),
    Case("method-truncated", lambda n: [raw(1, 1, b"\x00\x32\x00\x0a\x00")], (501, ANY_TEXT)),
    Case(
        "method-trailing-bytes",
        lambda n: [raw(1, 1, b"\x00\x3c\x00\x0a\x00\x00\x00\x00\x00\x00\x00zzz")],
        (501, ANY_TEXT),
    ),
    Case("method-empty", lambda n: [raw(1, 1, b"")], (501, ANY_TEXT)),
    Case("method-one-byte", lambda n: [raw(1, 1, b"\x00")], (501, ANY_TEXT)),
    Case("method-on-unopened-heartbeat", lambda n: [raw(8, 1, b"")], (505, ANY_TEXT)),
    Case("heartbeat-channel-zero", lambda n: [raw(8, 0, b"")]),
    Case("heartbeat-with-payload", lambda n: [raw(8, 0, b"abc")], (501, ANY_TEXT)),
    Case("header-without-method", lambda n: [raw(2, 1, HEADER_OF_3)], NO_METHOD),
    Case("body-without-method", lambda n: [raw(3, 1, b"abc")], NO_METHOD),
    Case("publish-then-method", lambda n: [Basic.Publish(), Basic.Qos()], NO_HEADER),
    Case("publish-then-body", lambda n: [Basic.Publish(), raw(3, 1, b"abc")], NO_HEADER),
    Case(
        "publish-then-wrong-class",
        lambda n: [Basic.Publish(), raw(2, 1, b"\x00\x0a" + HEADER_OF_3[2:])],
        (505, "expected content header for class 60, got one for class 10 instead"),
    ),
    Case(
        "publish-then-header-weight",
        lambda n: [
            Basic.Publish(),
            raw(2, 1, b"\x00\x3c\x00\x01" + HEADER_OF_3[4:]),
            raw(3, 1, b"abc"),
        ],
        NO_HEADER,
    ),
    Case(
        "publish-header-twice",
        lambda n: [Basic.Publish(), raw(2, 1, HEADER_OF_3), raw(2, 1, HEADER_OF_3)],
        NO_BODY,
    ),
    Case(
        "publish-body-too-long",
        lambda n: [Basic.Publish(), raw(2, 1, HEADER_OF_3), raw(3, 1, b"abcdef")],
        NO_BODY,
    ),
    Case(
        "publish-body-then-method",
        lambda n: [Basic.Publish(), raw(2, 1, HEADER_OF_3), raw(3, 1, b"ab"), Basic.Qos()],
        NO_BODY,
    ),
    Case(
        "publish-body-in-pieces",
        lambda n: [
            Basic.Publish(),
            raw(2, 1, HEADER_OF_3),
            raw(3, 1, b"a"),
            raw(3, 1, b""),
            raw(3, 1, b"bc"),
        ],
    ),
    Case(
        "publish-key-of-bytes",
        lambda n: [
            raw(1, 1, b"\x00\x3c\x00\x28\x00\x00\x00\x02\xff\xfe\x00"),
            raw(2, 1, HEADER_OF_3),
            raw(3, 1, b"abc"),
        ],
    ),
    Case(
        "publish-properties-truncated",
        lambda n: [
            Basic.Publish(),
            raw(2, 1, b"\x00\x3c\x00\x00" + b"\x00" * 7 + b"\x03\x80\x00\x20ab"),
            raw(3, 1, b"abc"),
        ],
        ENDED,
    ),
    Case(
        "publish-table-garbage",
        lambda n: [
            Basic.Publish(),
            raw(2, 1, b"\x00\x3c\x00\x00" + b"\x00" * 7 + b"\x03\x20\x00\x00\x00\x00\x04\x01aZ!"),
            raw(3, 1, b"abc"),
        ],
        ENDED,
    ),
    Case("update-secret", lambda n: [On(0, Connection.UpdateSecret("new", "rotated"))]),
)
