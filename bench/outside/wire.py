"""A small AMQP 0-9-1 client of its own on non-blocking sockets, for programs that judge a broker.

It imports nothing of Penstock, so that a fault of the broker's codec or client cannot hide itself.
One thread serves any number of connections: `Loop.run(seconds)`. Bytes of methods are written by
hand; source: AMQP 0-9-1, chapters 2 and 4.

    loop = Loop()
    publisher = Publisher(loop, port, "orders", body=b"x" * 1000, window=400)
    consumer = Consumer(loop, port, "orders", prefetch=100, rate=100.0)
    loop.run(10.0)
    print(publisher.confirmed, consumer.taken)
"""

import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_END: Final = 0xCE
RECV_BYTES: Final = 262_144
OUTPUT_MAX: Final = 262_144
"""A publisher adds nothing while this much waits for its socket."""

CONFIRM: Final = (60, 80)
NACK: Final = (60, 120)
DELIVER: Final = (60, 60)
RETURN: Final = (60, 50)


class Failed(Exception):
    """The broker did not answer as expected, or closed."""


def short(text: str) -> bytes:
    """A short string, at most 255 bytes."""
    data = text.encode()
    return bytes((len(data),)) + data


def table(entries: Mapping[str, str | int | bool | list[str]]) -> bytes:
    """A field table of strings, 64-bit integers, truth values and lists of strings."""
    out = b""
    for name, value in entries.items():
        out += short(name)
        if isinstance(value, bool):
            out += b"t" + bytes((value,))
        elif isinstance(value, int):
            out += b"l" + struct.pack(">q", value)
        elif isinstance(value, list):
            items = b"".join(_long(one) for one in value)
            out += b"A" + struct.pack(">I", len(items)) + items
        else:
            out += _long(value)
    return struct.pack(">I", len(out)) + out


def _long(text: str) -> bytes:
    data = text.encode()
    return b"S" + struct.pack(">I", len(data)) + data


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((FRAME_END,))


def method(channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
    """A method frame."""
    return frame(FRAME_METHOD, channel, struct.pack(">HH", class_id, method_id) + arguments)


def publish_bytes(
    channel: int,
    exchange: str,
    key: str,
    body: bytes,
    *,
    is_persistent: bool = False,
    is_mandatory: bool = False,
    frame_max: int = 131_072,
) -> bytes:
    """basic.publish with header and body frames."""
    head = struct.pack(">H", 0) + short(exchange) + short(key) + bytes((int(is_mandatory),))
    out = method(channel, 60, 40, head)
    properties = struct.pack(">HB", 0x1000, 2) if is_persistent else struct.pack(">H", 0)
    out += frame(FRAME_HEADER, channel, struct.pack(">HHQ", 60, 0, len(body)) + properties)
    step = frame_max - 8
    for at in range(0, len(body), step):
        out += frame(FRAME_BODY, channel, body[at : at + step])
    return out


class Loop:
    """Serves connections and timers in one thread.

    before: called before every look at the sockets, for those who send at a pace of their own;
    after: when all that had come was read, for those who look at what is true then.
    """

    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.before: list[Callable[[float], None]] = []
        self.after: list[Callable[[float], None]] = []
        self.connections: list[Connection] = []

    def close(self) -> None:
        """End every connection without a word."""
        for connection in self.connections:
            connection.drop()
        self.selector.close()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def connect(self, port: int, timeout: float) -> socket.socket:
        """A new socket to the broker. Raises: OSError."""
        return socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Serve for `seconds`, or until `until` is true; how long it took."""
        began = self.now()
        while (now := self.now()) - began < seconds and not until():
            for call in self.before:
                call(now)
            for key, events in self.selector.select(0.001):
                connection: Connection = key.data
                if events & selectors.EVENT_READ:
                    connection.readable()
                if events & selectors.EVENT_WRITE:
                    connection.flush()
            for call in self.after:
                call(self.now())
        return self.now() - began


class Connection:
    """One connection, opened and tuned. Opening blocks, everything after does not.

    blocked: what connection.blocked said, "" while it is not; blocked_log: (monotonic seconds,
    text) of each change; closed: what ended it, "" while it is open.
    """

    def __init__(
        self,
        loop: Loop,
        port: int,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        name: str = "",
        timeout: float = 20.0,
    ) -> None:
        self.loop = loop
        loop.connections.append(self)
        self.sock = loop.connect(port, timeout)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.inbox = bytearray()
        self.outbox: deque[bytes] = deque()
        self.outbox_bytes = 0
        self.is_writing = False
        self.is_read = True
        self.blocked = ""
        self.blocked_log: list[tuple[float, str]] = []
        self.closed = ""
        self.replies: deque[tuple[int, int, int, bytes]] = deque()
        self.handlers: dict[tuple[int, int, int], Callable[[bytes], None]] = {}
        self.body_left: dict[int, int] = {}
        self.body_done: dict[int, Callable[[], None]] = {}
        self._open(user, password, vhost, name)

    # -- opening ---------------------------------------------------------------------------------

    def _open(self, user: str, password: str, vhost: str, name: str) -> None:
        self.sock.sendall(b"AMQP\x00\x00\x09\x01")
        self.wait_for(0, 10, 10)
        capabilities = table(
            {"connection.blocked": True, "basic.nack": True, "consumer_cancel_notify": True}
        )
        properties = (
            short("capabilities") + b"F" + capabilities + table({"connection_name": name})[4:]
        )
        response = b"\x00" + user.encode() + b"\x00" + password.encode()
        self.sock.sendall(
            method(
                0,
                10,
                11,
                struct.pack(">I", len(properties))
                + properties
                + short("PLAIN")
                + struct.pack(">I", len(response))
                + response
                + short("en_US"),
            )
        )
        tune = self.wait_for(0, 10, 30)
        channels, frame_max, _ = struct.unpack(">HIH", tune[:8])
        self.frame_max = min(frame_max or 131_072, 131_072)
        self.sock.sendall(method(0, 10, 31, struct.pack(">HIH", channels, self.frame_max, 0)))
        self.sock.sendall(method(0, 10, 40, short(vhost) + b"\x00\x00"))
        self.wait_for(0, 10, 41)
        self.sock.setblocking(False)
        self.loop.selector.register(self.sock, selectors.EVENT_READ, self)

    def wait_for(self, channel: int, class_id: int, method_id: int, seconds: float = 20.0) -> bytes:
        """The arguments of the next such method; others are handled meanwhile. Raises: Failed."""
        end = self.loop.now() + seconds
        while True:
            for index, reply in enumerate(self.replies):
                if reply[:3] == (channel, class_id, method_id):
                    del self.replies[index]
                    return reply[3]
            if self.closed:
                raise Failed(self.closed)
            if self.loop.now() > end:
                raise Failed(f"no method {class_id}.{method_id} within {seconds} s")
            if self.sock.gettimeout() == 0.0:
                self.loop.run(0.05, lambda: bool(self.replies))
            else:
                self._got(self.sock.recv(RECV_BYTES))

    def call(self, channel: int, class_id: int, method_id: int, arguments: bytes = b"") -> bytes:
        """Send a method whose answer has the next number, and wait for it. Raises: Failed."""
        self.send(method(channel, class_id, method_id, arguments))
        return self.wait_for(channel, class_id, method_id + 1)

    def channel(self, number: int = 1, *, confirms: bool = False, prefetch: int = 0) -> None:
        """Open channel `number`."""
        self.call(number, 20, 10, short(""))
        if prefetch:
            self.call(number, 60, 10, struct.pack(">IHB", 0, prefetch, 0))
        if confirms:
            self.call(number, 85, 10, b"\x00")

    def declare(
        self,
        queue: str,
        *,
        channel: int = 1,
        durable: bool = False,
        arguments: dict[str, str | int | bool] | None = None,
    ) -> None:
        """queue.declare."""
        head = struct.pack(">H", 0) + short(queue) + bytes((2 if durable else 0,))
        self.call(channel, 50, 10, head + table(arguments or {}))

    # -- bytes -----------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Write, or keep for later what the socket does not take."""
        self.outbox.append(data)
        self.outbox_bytes += len(data)
        self.flush()

    def flush(self) -> None:
        try:
            while self.outbox:
                data = self.outbox[0]
                sent = self.sock.send(data)
                self.outbox_bytes -= sent
                if sent < len(data):
                    self.outbox[0] = data[sent:]
                    break
                self.outbox.popleft()
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(str(error))
            return
        wanted = bool(self.outbox)
        if wanted != self.is_writing and not self.closed:
            self.is_writing = wanted
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self.loop.selector.modify(self.sock, events, self)

    def readable(self) -> None:
        try:
            data = self.sock.recv(RECV_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(str(error))
            return
        self._got(data)

    def _got(self, data: bytes) -> None:
        if not data:
            self._end("closed by the broker")
            return
        inbox = self.inbox
        inbox += data
        at = 0
        size = len(inbox)
        while size - at >= 8:
            kind, channel, length = struct.unpack_from(">BHI", inbox, at)
            if size - at < length + 8:
                break
            self._frame(kind, channel, inbox, at + 7, length)
            at += length + 8
        del inbox[:at]

    def _frame(self, kind: int, channel: int, data: bytearray, at: int, length: int) -> None:
        if kind == FRAME_BODY:
            self.body_left[channel] -= length
            if self.body_left[channel] == 0:
                self.body_done[channel]()
        elif kind == FRAME_HEADER:
            (left,) = struct.unpack_from(">Q", data, at + 4)
            self.body_left[channel] = left
            self.body_begins(channel, left)
            if left == 0:
                self.body_done[channel]()
        elif kind == FRAME_METHOD:
            class_id, method_id = struct.unpack_from(">HH", data, at)
            arguments = bytes(data[at + 4 : at + length])
            handler = self.handlers.get((channel, class_id, method_id))
            if handler is not None:
                handler(arguments)
            else:
                self._method(channel, class_id, method_id, arguments)

    def body_begins(self, channel: int, size: int) -> None:
        """A body of `size` bytes is about to come; for those who want to know."""

    def _method(self, channel: int, class_id: int, method_id: int, arguments: bytes) -> None:
        if (class_id, method_id) == (10, 60):
            self.blocked = arguments[1 : 1 + arguments[0]].decode()
            self.blocked_log.append((self.loop.now(), self.blocked))
        elif (class_id, method_id) == (10, 61):
            self.blocked = ""
            self.blocked_log.append((self.loop.now(), ""))
        elif (class_id, method_id) in ((10, 50), (20, 40)):
            (code,) = struct.unpack_from(">H", arguments, 0)
            self._end(f"{code} {arguments[3 : 3 + arguments[2]].decode()}")
        elif (class_id, method_id) == (20, 20):
            self.send(method(channel, 20, 21, arguments[:1]))
        else:
            self.replies.append((channel, class_id, method_id, arguments))

    def _end(self, why: str) -> None:
        if not self.closed:
            self.closed = why
            if self.sock.gettimeout() == 0.0 and self.is_read:
                self.loop.selector.unregister(self.sock)
            self.sock.close()

    def drop(self) -> None:
        """End the connection without a word."""
        self._end("dropped here")

    def stop_reading(self, is_stopped: bool) -> None:
        """A client that does not take its answers, for as long as it is wanted."""
        self.is_read = not is_stopped
        if is_stopped:
            self.loop.selector.unregister(self.sock)
        else:
            self.loop.selector.register(self.sock, selectors.EVENT_READ, self)
            self.is_writing = False
            self.flush()


class Publisher:
    """Publishes one body again and again to one queue over a connection and channel.

    window: publishes without a confirm at most, 0 for no confirms at all; rate: a second at most,
    0 for no limit. sent, confirmed, nacked: counts; gap_s: longest time without a confirm while
    some were owed; latencies: seconds from sending to the confirm, of the last 100,000.
    """

    def __init__(
        self,
        loop: Loop,
        port: int,
        queue: str,
        *,
        body: bytes,
        window: int = 0,
        rate: float = 0.0,
        connection: Connection | None = None,
        channel: int = 1,
        name: str = "",
        is_persistent: bool = False,
    ) -> None:
        self.loop = loop
        self.is_own = connection is None
        self.connection = connection or Connection(loop, port, name=name)
        self.channel = channel
        self.connection.channel(channel, confirms=window > 0)
        self.window = window
        self.rate = rate
        self.body_bytes = len(body)
        self.one = publish_bytes(
            channel,
            "",
            queue,
            body,
            is_persistent=is_persistent,
            frame_max=self.connection.frame_max,
        )
        self.sent = 0
        self.confirmed = 0
        self.nacked = 0
        self.gap_s = 0.0
        self.latencies: deque[float] = deque(maxlen=100_000)
        self.sent_at: deque[float] = deque()
        self.answered: set[int] = set()
        self.first_open = 1
        self.is_stopped = False
        self.began = loop.now()
        self.last_answer = self.began
        self.connection.handlers[channel, *CONFIRM] = self._confirm
        self.connection.handlers[channel, *NACK] = self._nack
        loop.before.append(self.step)

    def owed(self) -> int:
        """Publishes without an answer."""
        return self.sent - self.confirmed - self.nacked

    def step(self, now: float) -> None:
        """Publish what window, rate and socket allow; a burst of 64 KiB at most."""
        if self.is_stopped or self.connection.closed:
            return
        count = max(1, 65_536 // len(self.one))
        if self.window:
            count = min(count, self.window - self.owed())
        if self.rate:
            count = min(count, int((now - self.began) * self.rate) - self.sent)
        if count <= 0 or self.connection.outbox_bytes > OUTPUT_MAX:
            return
        if self.window:
            if self.owed() == 0:
                self.last_answer = now
            self.sent_at.extend([now] * count)
        self.sent += count
        self.connection.send(self.one * count)

    def _confirm(self, arguments: bytes) -> None:
        tag, is_multiple = struct.unpack(">QB", arguments)
        self.confirmed += self._answered(tag, bool(is_multiple))

    def _nack(self, arguments: bytes) -> None:
        tag, bits = struct.unpack(">QB", arguments)
        self.nacked += self._answered(tag, bool(bits & 1))

    def _answered(self, tag: int, is_multiple: bool) -> int:
        now = self.loop.now()
        self.gap_s = max(self.gap_s, now - self.last_answer)
        self.last_answer = now
        count = 0
        if is_multiple:
            while self.first_open <= tag:
                count += self._close_first(now)
        else:
            self.answered.add(tag)
            count = 1
            self.latencies.append(now - self.sent_at[tag - self.first_open])
        while self.first_open in self.answered:
            self._close_first(now)
        return count

    def _close_first(self, now: float) -> int:
        sent = self.sent_at.popleft()
        is_new = self.first_open not in self.answered
        if is_new:
            self.latencies.append(now - sent)
        else:
            self.answered.discard(self.first_open)
        self.first_open += 1
        return int(is_new)

    def longest_gap(self) -> float:
        """Seconds, with the one that is still going on."""
        if self.window and self.owed() > 0:
            return max(self.gap_s, self.loop.now() - self.last_answer)
        return self.gap_s


class Consumer:
    """Takes and acknowledges messages of one queue.

    rate: acknowledgements a second at most, 0 for as fast as they come; prefetch 0: no limit.
    rejects: it answers each with basic.nack without requeue, which makes a dead letter.
    requeues: it gives each back with basic.nack; tag: of the consumer.
    taken: deliveries that were complete; acked; is_stopped: takes, and acknowledges nothing.
    """

    def __init__(
        self,
        loop: Loop,
        port: int,
        queue: str,
        *,
        prefetch: int = 100,
        rate: float = 0.0,
        connection: Connection | None = None,
        channel: int = 1,
        name: str = "",
        no_ack: bool = False,
        rejects: bool = False,
    ) -> None:
        self.loop = loop
        self.connection = connection or Connection(loop, port, name=name)
        self.channel = channel
        self.rate = rate
        self.no_ack = no_ack
        self.rejects = rejects
        self.requeues = False
        self.is_stopped = False
        self.taken = 0
        self.acked = 0
        self.began = loop.now()
        self.connection.channel(channel, prefetch=prefetch)
        self.connection.handlers[channel, *DELIVER] = lambda arguments: None
        self.connection.body_done[channel] = self._done
        head = struct.pack(">H", 0) + short(queue) + short("") + bytes((2 if no_ack else 0,))
        reply = self.connection.call(channel, 60, 20, head + table({}))
        self.tag = reply[1 : 1 + reply[0]].decode()
        loop.before.append(self.step)

    def _done(self) -> None:
        self.taken += 1

    def step(self, now: float) -> None:
        """Acknowledge what the rate allows, all with one method."""
        if self.no_ack or self.is_stopped or self.connection.closed:
            return
        due = self.taken - self.acked
        if self.rate:
            due = min(due, max(1, int((now - self.began) * self.rate)) - self.acked)
        if due > 0:
            self.acknowledge(due)

    def acknowledge(self, count: int) -> None:
        """Answer the oldest `count` that are not, with one method."""
        self.acked += count
        number = 120 if self.rejects or self.requeues else 80
        bits = 3 if self.requeues else 1
        answer = struct.pack(">QB", self.acked, bits)
        self.connection.send(method(self.channel, 60, number, answer))


def jain(shares: list[float]) -> float:
    """Jain's index of fairness, 1 for equal shares. Raises: ValueError for no shares."""
    if not shares:
        raise ValueError("no shares to compare")
    squares = sum(one * one for one in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
