"""A publisher and a consumer that stay with a cluster: they connect to any node, again and again.

A publisher sends what was not confirmed once more, in its order, after it has connected anew. Both
write down what they do and see, see cluster_history.
"""

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import pika
from pika.adapters.utils.connection_workflow import AMQPConnectorException
from pika.exceptions import AMQPError

from penstock.demo.cluster_history import CONFIRMED, CONNECTED, DELIVERED, SENT, Happened

AGAIN_S: Final = 0.05
_TROUBLE: Final = (AMQPError, AMQPConnectorException, OSError)


class Client:
    """places: addresses and ports of the nodes, tried in turns. A thread of its own from `start` to
    `stop`; history: what happened, in order; began: the run's clock is 0 there; kind: the queue's
    type, "" for none; vhost: where the queue is."""

    def __init__(
        self, places: Sequence[tuple[str, int]], queue: str, began: float, *, is_stream: bool
    ) -> None:
        self.places = places
        self.queue = queue
        self.began = began
        self.is_stream = is_stream
        self.kind = "stream" if is_stream else ""
        self.vhost = "/"
        self.turn = 0
        self.history: list[Happened] = []
        self.connections = 0
        self.is_over = threading.Event()
        self.fault: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)

    def arguments(self) -> dict[str, object] | None:
        """Of the queue, which is declared on each connection."""
        return {"x-queue-type": self.kind} if self.kind else None

    def now(self) -> float:
        return time.monotonic() - self.began

    def start(self) -> None:
        self.thread.start()

    def stop(self, wait_s: float = 60.0) -> None:
        """Raises: whatever the thread has ended with."""
        self.is_over.set()
        self.thread.join(wait_s)
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        try:
            while not self.is_over.is_set():
                try:
                    self._connected()
                except _TROUBLE:
                    self.turn += 1
                    time.sleep(AGAIN_S)
        except BaseException as fault:
            self.fault = fault

    def parameters(self) -> Any:
        """Of a connection to the node whose turn it is."""
        host, port = self.places[self.turn % len(self.places)]
        return pika.ConnectionParameters(
            host,
            port,
            self.vhost,
            heartbeat=10,
            socket_timeout=5,
            stack_timeout=20,
            connection_attempts=1,
        )

    def _connected(self) -> None:
        """Connect, and work until that ends or all is done. Raises: AMQPError; OSError."""
        raise NotImplementedError


class Publisher(Client):
    """Publishes numbered messages with confirms, `window` of them under way.

    confirmed_at: the run's clock at each confirm; waits_s: from a publish to its confirm.
    """

    def __init__(
        self,
        places: Sequence[tuple[str, int]],
        queue: str,
        began: float,
        *,
        name: str = "p",
        window: int = 1,
        size: int = 100,
        is_stream: bool = False,
    ) -> None:
        super().__init__(places, queue, began, is_stream=is_stream)
        self.name = name
        self.window = window
        self.body = b"x" * size
        self.number = 0
        self.unconfirmed: deque[int] = deque()
        self.sent_at: dict[int, float] = {}
        self.confirmed_at: list[float] = []
        self.waits_s: list[float] = []

    def _connected(self) -> None:
        self.tags: dict[int, int] = {}
        self.tag = 0
        self.again = deque(self.unconfirmed)
        self.channel: Any = None
        self.trouble: BaseException | None = None
        connection = pika.SelectConnection(
            self.parameters(),
            on_open_callback=self._open,
            on_open_error_callback=self._closed,
            on_close_callback=self._closed,
        )
        self.connections += 1
        try:
            connection.ioloop.start()
        finally:
            connection.ioloop.close()
        if self.trouble is not None:
            raise self.trouble

    def _open(self, connection: Any) -> None:
        connection.channel(on_open_callback=self._channel_open)

    def _closed(self, connection: Any, reason: BaseException) -> None:
        self.channel = None
        self.trouble = None if self.is_over.is_set() and not self.unconfirmed else reason
        connection.ioloop.stop()

    def _channel_open(self, channel: Any) -> None:
        self.channel = channel

        def declared(_: Any) -> None:
            channel.confirm_delivery(self._answered)
            self._pump()
            self._look()

        channel.queue_declare(
            self.queue, durable=True, arguments=self.arguments(), callback=declared
        )

    def _look(self) -> None:
        """Now and then: whether all is said."""
        channel = self.channel
        if channel is None:
            return
        if self.is_over.is_set() and not self.unconfirmed:
            channel.connection.close()
            return
        channel.connection.ioloop.call_later(0.1, self._look)

    def _pump(self) -> None:
        while self.channel is not None and len(self.tags) < self.window:
            if self.again:
                self._send(self.again.popleft())
            elif self.is_over.is_set():
                return
            else:
                self.number += 1
                self.unconfirmed.append(self.number)
                self._send(self.number)

    def _send(self, number: int) -> None:
        self.tag += 1
        self.tags[self.tag] = number
        self.sent_at[number] = self.now()
        self.history.append(Happened(self.sent_at[number], SENT, self.name, number))
        self.channel.basic_publish(
            "",
            self.queue,
            f"{self.name} {number} ".encode() + self.body,
            pika.BasicProperties(delivery_mode=2),
        )

    def _answered(self, frame: Any) -> None:
        method = frame.method
        assert method.NAME == "Basic.Ack", f"a publish was refused: {method}"
        tags = [method.delivery_tag]
        if method.multiple:
            tags = sorted(tag for tag in self.tags if tag <= method.delivery_tag)
        now = self.now()
        for tag in tags:
            number = self.tags.pop(tag)
            self.unconfirmed.remove(number)
            self.confirmed_at.append(now)
            self.waits_s.append(now - self.sent_at.pop(number))
            self.history.append(Happened(now, CONFIRMED, self.name, number))
        self._pump()

    def longest_gap_s(self, after: float, until: float = float("inf")) -> float:
        """The longest time without a confirm that began at `after` or later, or was under way then;
        the time since the last one counts, too."""
        found = [at for at in list(self.confirmed_at) if at <= until]
        ends = [*found[1:], min(until, self.now())]
        gaps = [end - at for at, end in zip(found, ends, strict=False) if end > after]
        return max(gaps, default=float("inf"))

    def has_confirm_after(self, at: float) -> bool:
        found = self.confirmed_at
        return bool(found) and found[-1] > at


class Consumer(Client):
    """Gets everything, and acknowledges it."""

    def __init__(
        self,
        places: Sequence[tuple[str, int]],
        queue: str,
        began: float,
        *,
        is_stream: bool = False,
    ) -> None:
        super().__init__(places, queue, began, is_stream=is_stream)

    def _connected(self) -> None:
        connection = pika.BlockingConnection(self.parameters())
        self.connections += 1
        self.history.append(Happened(self.now(), CONNECTED, "", 0))
        try:
            self._work(connection)
        finally:
            if connection.is_open:
                connection.close()

    def _work(self, connection: Any) -> None:
        channel = connection.channel()
        channel.queue_declare(self.queue, durable=True, arguments=self.arguments())
        channel.basic_qos(prefetch_count=100)
        arguments: dict[str, object] = {}
        if self.is_stream:
            # Offsets are the consumer's own: it goes on behind what it has.
            last = max((one.offset for one in self.history), default=-1)
            arguments["x-stream-offset"] = last + 1
        channel.basic_consume(self.queue, self._got, arguments=arguments)
        while not self.is_over.is_set():
            connection.process_data_events(time_limit=0.2)

    def _got(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:
        name, number, _ = body.split(b" ", 2)
        offset = int((properties.headers or {}).get("x-stream-offset", -1))
        one = Happened(
            self.now(), DELIVERED, name.decode(), int(number), offset, method.redelivered
        )
        self.history.append(one)
        channel.basic_ack(method.delivery_tag)

    def await_all(self, wanted: set[tuple[str, int]], wait_s: float) -> bool:
        """Whether all of them came, in so long."""
        end = time.monotonic() + wait_s
        while time.monotonic() < end:
            have = {(one.publisher, one.number) for one in list(self.history)}
            if wanted <= have:
                return True
            time.sleep(0.1)
        return False
