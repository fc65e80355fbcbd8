"""A connection that takes whole chunks of a stream, received straight into place. IO.

A delivery of a megabyte comes in frames; their contents are read from the socket into the one array
that the columns will be views of. Everything else that arrives is handed to the session.
Owner: one thread. While nothing comes, heartbeats are kept.
"""

import ssl
import time
from typing import Any, Final, NamedTuple

import numpy as np

from penstock.base.errors import OperatorError
from penstock.client.errors import ConnectionClosedError
from penstock.client.events import Cancelled, ClientEvent, ConnectionClosed
from penstock.client.io_blocking import Connection
from penstock.protocol import methods as m
from penstock.protocol.values import Table, decode_table
from penstock.spark.connector.common.link import Wire, check_channel
from penstock.spark.connector.common.scan import FRAME_BYTES_HIGHEST

CAPABILITY: Final = "penstock.chunks"
PREFETCH: Final = 4
"""Deliveries on their way at most, of about a megabyte each."""
STAGE_BYTES: Final = 8192
"""What is read beside bodies: the heads of frames, and small frames. The beginning of a body may
come with them and is copied once more."""
DELIVERY_BYTES_MAX: Final = 1_073_741_824
_CONTENT_TYPE: Final = b"application/x-penstock-chunk"
_DELIVER: Final = b"\x00\x3c\x00\x3c"
_END: Final = 0xCE
_NS_PER_MS: Final = 1_000_000
_STEP_MS: Final = 1000


class ChunkDelivery(NamedTuple):
    """One or more chunks. consumer: for which it was sent; tag: to acknowledge it by; body: their
    bytes as a numpy array; version, seed: what their checksums need."""

    consumer: bytes
    tag: int
    body: Any
    version: int
    seed: int


def has_chunks(connection: Connection) -> bool:
    """Whether the broker hands out chunks."""
    return CAPABILITY in connection.session.server_capabilities()


class ChunkLink(Wire):
    """A channel of `connection`, which belongs to this object from now on. Reads one range after
    the other."""

    def __init__(self, connection: Connection) -> None:
        try:
            channel = connection.channel()
            channel.qos(PREFETCH)
        except BaseException:
            connection.drop()
            raise
        super().__init__(connection, channel.number)
        self._stage = memoryview(bytearray(STAGE_BYTES))
        self._at = 0
        self._have = 0
        self._end_ns = 0
        self._timeout_ms = 0
        self._stream = ""
        self._cancelled = ""
        self._consumers = 0
        self._tag = b""

    def begin(self, stream: str, range_of: Table, cancelled: str) -> None:
        """Ask for the chunks of a range of `stream`, or of a leased queue; their deliveries come by
        `next`. range_of: arguments that say which; cancelled: what it means when the broker ends
        it."""
        self._stream = stream
        self._cancelled = cancelled
        self._no_chunks = (
            f"queue {stream!r}: the broker has leases, but does not hand them out in "
            "chunks, because it is older than this connector; upgrade the broker, or install its "
            "own version here"
            if "x-lease-group" in range_of
            else f"stream {stream!r}: a delivery says nothing of chunks; set option readMode=amqp"
        )
        self._consumers += 1
        arguments: Table = {**range_of, "x-penstock-format": "chunk"}
        tag = f"penstock-chunks-{self._consumers}"
        self._tag = tag.encode()
        consume = m.BasicConsume(stream, tag, False, False, False, False, arguments)
        self.session.request(self.number, consume)

    def end(self) -> None:
        """Everything of the range has come; what is said here goes out with the next range."""
        self.session.request(self.number, m.BasicCancel(self._tag.decode()))
        self.write()

    def next(self, timeout_ms: int) -> ChunkDelivery | None:
        """The next delivery, acknowledged already; None when none came for `timeout_ms`.

        Raises: ConnectionClosedError; ChannelClosedError; OperatorError when the broker ends it.
        """
        self._timeout_ms = timeout_ms
        self._end_ns = time.monotonic_ns() + timeout_ms * _NS_PER_MS
        try:
            while True:
                delivery = self._receive()
                self.session.ack(self.number, delivery.tag, True)
                self._check(self.session.feed(b"", time.monotonic_ns()))
                self.write()
                if delivery.consumer == self._tag:
                    return delivery
        except TimeoutError:
            return None

    # --- frames ---------------------------------------------------------------------------

    def _receive(self) -> ChunkDelivery:
        """Frames until a delivery is whole. Raises: TimeoutError, only between two frames of
        something else."""
        while True:
            kind, size = self._frame_head()
            frame = self._take(size + 1)
            if kind == 1 and frame[:4] == _DELIVER:
                at = 5 + frame[4]
                return self._delivery(frame[5:at], int.from_bytes(frame[at : at + 8], "big"))
            if kind != 0:
                head = bytes((kind,)) + self.number.to_bytes(2, "big") + size.to_bytes(4, "big")
                self._check(self.session.feed(head + frame, time.monotonic_ns()))

    def _delivery(self, consumer: bytes, tag: int) -> ChunkDelivery:
        """The content behind a basic.deliver."""
        kind, size = self._content_head()
        header = self._take(size + 1)
        if kind != 2 or size < 14:
            raise self._lost()
        left = int.from_bytes(header[4:12], "big")
        table = self._headers(header, size)
        version, seed = table.get("x-chunk-version"), table.get("x-chunk-seed")
        if not isinstance(version, int) or not isinstance(seed, int) or left > DELIVERY_BYTES_MAX:
            raise OperatorError(self._no_chunks)
        body: Any = np.empty(left, np.uint8)
        view = memoryview(body)
        at = 0
        while at < left:
            kind, size = self._content_head()
            if kind != 3 or size > left - at:
                raise self._lost()
            self._fill(view[at : at + size])
            at += size
            if self._take(1)[0] != _END:
                raise self._lost()
        return ChunkDelivery(consumer, tag, body, version, seed)

    def _headers(self, header: bytes, size: int) -> Table:
        """The headers of a delivery, whose properties begin with the content type."""
        at = 14
        if header[12:14] == b"\xa0\x00" and header[15 : 15 + header[14]] == _CONTENT_TYPE:
            at = 15 + header[14]
            table, _ = decode_table(header, at, size)
            return table
        return {}

    def _content_head(self) -> tuple[int, int]:
        """The head of the next frame of this channel; what stands between is the session's."""
        while True:
            kind, size = self._frame_head()
            if kind != 0:
                return kind, size

    def _frame_head(self) -> tuple[int, int]:
        """Kind and size of the next frame of the channel; kind 0 for one of another, which went to
        the session as a whole."""
        head = self._take(7)
        kind = head[0]
        number = int.from_bytes(head[1:3], "big")
        size = int.from_bytes(head[3:7], "big")
        if size > FRAME_BYTES_HIGHEST:
            raise self._lost()
        if number == self.number:
            return kind, size
        frame = head + self._take(size + 1)
        self._check(self.session.feed(frame, time.monotonic_ns()))
        return 0, -1

    # --- bytes ----------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        """The next `count` bytes, which are few."""
        if self._have - self._at >= count:
            self._at += count
            return bytes(self._stage[self._at - count : self._at])
        found = bytearray(count)
        self._fill(memoryview(found))
        return bytes(found)

    def _fill(self, place: memoryview) -> None:
        """Fill `place` with what comes next: first what is staged, then from the socket itself."""
        count = min(len(place), self._have - self._at)
        place[:count] = self._stage[self._at : self._at + count]
        self._at += count
        while count < len(place):
            if len(place) - count < STAGE_BYTES:
                self._have = self._read(self._stage)
                self._at = min(len(place) - count, self._have)
                place[count : count + self._at] = self._stage[: self._at]
                count += self._at
            else:
                count += self._read(place[count:])

    def _read(self, place: memoryview) -> int:
        """Read into `place`; at least one byte. Raises: TimeoutError, ConnectionClosedError."""
        while True:
            try:
                count = self._socket.recv_into(place)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                self._await_input()
                continue
            except OSError as error:
                self.session.end_of_stream()
                raise ConnectionClosedError(
                    0, f"the connection broke: {error.strerror or error}", False
                ) from error
            if count == 0:
                self._check(self.session.end_of_stream())
                raise ConnectionClosedError(0, "the connection has ended", False)
            return count

    def _await_input(self) -> None:
        """Until there is something to read. Raises: TimeoutError, ConnectionClosedError."""
        self._check(self.session.tick(time.monotonic_ns()))
        self.write()
        left_ms = (self._end_ns - time.monotonic_ns()) / _NS_PER_MS
        if left_ms <= 0:
            raise TimeoutError(f"nothing came for {self._timeout_ms} ms")
        self._wait(min(left_ms, _STEP_MS))

    def _check(self, events: list[ClientEvent]) -> None:
        for event in events:
            if isinstance(event, ConnectionClosed):
                raise ConnectionClosedError(event.code, event.text, event.is_by_broker)
            check_channel([event])
            if isinstance(event, Cancelled):
                raise OperatorError(self._cancelled)

    def _lost(self) -> OperatorError:
        return OperatorError(
            f"stream {self._stream!r}: frames of a delivery are out of order; set option "
            "readMode=amqp and report it"
        )
