"""Consumes an ordinary queue beside the planner: a thread that moves bytes into the ledger. IO.

Spark calls its planner once per batch and not at all while a batch runs; heartbeats and prefetch go
on meanwhile, here. The broker is held back by prefetch (messages) and by `maxBufferedBytes`: above
it the consumer is cancelled, and started again when half of it is free, so that neither side ever
leaves its socket alone. A connection that breaks is opened again for `reconnectTimeout`; meanwhile
batches are empty. What cannot mend itself, as a queue that is gone, fails the next call.

    opened -> consuming <-> paused        lost: -> opened, or failed
"""

import logging
import select
import threading
import time
from typing import Final

from penstock.base.errors import OperatorError
from penstock.client.errors import ClientError
from penstock.client.events import (
    Cancelled,
    ChannelClosed,
    ClientEvent,
    ConnectionClosed,
    Replied,
)
from penstock.protocol import methods as m
from penstock.spark.connector.common.link import QueueLink, waker
from penstock.spark.connector.common.opening import is_stream, open_connection
from penstock.spark.connector.common.options import SourceOptions
from penstock.spark.connector.common.outage import RETRY_MS, Outage
from penstock.spark.connector.common.scan import Scanned
from penstock.spark.connector.queue.ledger import OffsetLedger

_log = logging.getLogger("penstock.spark")
_NS_PER_MS: Final = 1_000_000
COUNT_EVERY_MS: Final = 1000
"""How often the queue's length is asked for: it is shown as lag, once a second is enough."""
LOOP_MS_MAX: Final = 1000
CONSUMER_TAG: Final = "spark"


class QueueFeed:
    """One query's consumer. `ledger` and everything else is touched under `lock` only.

    Raises from `__init__`: OperatorError, ConnectError; ChannelClosedError when there is no such
    queue. `ready`: messages in the queue when it was last asked; `failure`: why nothing will come
    any more.
    """

    def __init__(self, options: SourceOptions, name: str) -> None:
        self.lock = threading.Condition()
        self.ledger = OffsetLedger()
        self.failure: Exception | None = None
        self.waiting_since_ns = 0
        self.is_paused = False
        self._options = options
        self._name = name
        self._link = self._open()
        self.ready = self._link.ready_at_opening
        self._answers = 0
        self._count_asked: m.Method | None = None
        self._count_at_ns = 0
        self._is_consuming = False
        self._is_lost = False
        self._outage = Outage()
        self._is_stopping = False
        self._near, self._far = waker()
        self._thread = threading.Thread(target=self._run, name="penstock-spark-feed", daemon=True)
        self._thread.start()

    # --- the planner's verbs, all under `lock` --------------------------------------------

    def check(self) -> None:
        """Raises: what ended the feed."""
        if self.failure is not None:
            raise self.failure

    def settle(self, position: int) -> None:
        """Everything up to `position` is committed: acknowledge it."""
        tag = self.ledger.settle(position)
        if tag > 0 and not self._is_lost:
            self._link.acknowledge(tag)
            self.wake()

    def planned(self) -> None:
        """A batch was made: those who wait from now on begin to wait now."""
        self.waiting_since_ns = time.monotonic_ns()

    def waited_ms(self) -> float:
        """How long the oldest message that is in no batch has been here."""
        if self.ledger.waiting() == 0:
            return 0.0
        return (time.monotonic_ns() - self.waiting_since_ns) / _NS_PER_MS

    def is_full(self) -> bool:
        """Whether the broker delivers nothing more until a batch has gone."""
        held = self.ledger.received - self.ledger.acknowledged
        return self.is_paused or held >= self._options.prefetch

    def wait_for_rows(self, rows: int, timeout_ms: float) -> None:
        """Wait until `rows` messages wait for a batch, or no more can come, or the feed failed."""
        self.lock.wait_for(
            lambda: self.failure is not None or self.ledger.waiting() >= rows or self.is_full(),
            timeout_ms / 1000,
        )

    def count_again(self, timeout_ms: float) -> None:
        """Have the queue's length asked for now, and wait for the answer."""
        before = self._answers
        self._count_at_ns = 0
        self.wake()
        self.lock.wait_for(
            lambda: self.failure is not None or self._answers > before, timeout_ms / 1000
        )

    def wake(self) -> None:
        """Have the thread look at what was said."""
        try:
            self._far.send(b"\0")
        except BlockingIOError:
            # It is full of wake-ups already, and one is enough.
            return

    def stop(self) -> None:
        """Close in order: the broker has then read every acknowledgement, and takes back the
        rest. Not under `lock`. Idempotent."""
        with self.lock:
            if self._is_stopping:
                return
            self._is_stopping = True
            self.lock.notify_all()
            self.wake()
        self._thread.join()
        self._link.close()
        self._near.close()
        self._far.close()

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                if self._is_lost:
                    self._reopen()
                else:
                    self._turn()
        except (OperatorError, ClientError) as failure:
            self._fail(failure)
        except Exception as failure:
            # A thread that dies in silence would leave a query that reads nothing and says nothing.
            self._fail(AssertionError(f"the consumer of {self._options.queue} failed: {failure!r}"))
            raise

    def _fail(self, failure: Exception) -> None:
        with self.lock:
            self.failure = failure
            self.lock.notify_all()

    def _turn(self) -> None:
        """Write, wait for something, read."""
        link = self._link
        with self.lock:
            now_ns = time.monotonic_ns()
            for event in link.session.tick(now_ns):
                self._on(event)
            if self._is_lost:
                return
            self._steer(now_ns)
            link.write()
            wanted = select.POLLIN | (select.POLLOUT if link.wants_write() else 0)
        poll = select.poll()
        poll.register(link.fileno(), wanted)
        poll.register(self._near, select.POLLIN)
        ready = dict(poll.poll(0 if link.has_pending() else LOOP_MS_MAX))
        if self._near.fileno() in ready:
            self._near.recv(4096)
        with self.lock:
            if link.fileno() in ready or link.has_pending():
                scanned, events = link.read()
                self._take(scanned)
                for event in events:
                    self._on(event)
                self.lock.notify_all()

    def _steer(self, now_ns: int) -> None:
        """Start, pause and resume the consumer; ask for the length now and then."""
        held, bound = self.ledger.bytes_held, self._options.buffered_bytes
        if self.ledger.is_begun and not self._is_consuming:
            if held * 2 <= bound:
                self._link.consume(CONSUMER_TAG)
                self._is_consuming = True
                self.is_paused = False
        elif self._is_consuming and held > bound:
            self._link.ask(m.BasicCancel(CONSUMER_TAG))
            self._is_consuming = False
            self.is_paused = True
        if self._count_asked is None and now_ns >= self._count_at_ns:
            self._count_asked = self._link.ask(m.QueueDeclare(self._options.queue, True))
            self._count_at_ns = now_ns + COUNT_EVERY_MS * _NS_PER_MS

    def _take(self, scanned: Scanned) -> None:
        if not scanned.ends:
            return
        if self.ledger.waiting() == 0:
            self.waiting_since_ns = time.monotonic_ns()
        self.ledger.add(scanned.raw, scanned.ends)
        # What is here is not there any more. Answers may overtake deliveries, so this is exact
        # only when nothing is on its way; it is shown as lag, and nothing is decided by it alone.
        self.ready = max(0, self.ready - len(scanned.ends))

    def _on(self, event: ClientEvent) -> None:
        if isinstance(event, Replied):
            if event.request is self._count_asked and isinstance(event.reply, m.QueueDeclareOk):
                self.ready = event.reply.message_count
                self._answers += 1
                self._count_asked = None
        elif isinstance(event, Cancelled):
            self._lose("the broker cancelled the consumer")
        elif isinstance(event, ChannelClosed | ConnectionClosed):
            self._lose(f"{event.code} {event.text}")

    def _lose(self, why: str) -> None:
        if self._is_lost:
            return
        _log.warning(
            "queue %s: connection to %s lost (%s); unacknowledged messages will come again",
            self._options.queue, self._options.endpoint.url.address(), why,
        )  # fmt: skip
        self._is_lost = True
        self._is_consuming = False
        self.is_paused = False
        self._count_asked = None
        self.ledger.lose_connection()
        self._link.drop()

    def _reopen(self) -> None:
        """Open again; a broker that is still away is left alone for RETRY_MS. Raises:
        OperatorError after `reconnectTimeout`; ClientError where it makes no sense."""
        options = self._options
        try:
            link = self._open()
        except ClientError as error:
            limit_ms = options.endpoint.reconnect_timeout_ms
            self._outage.bear(error, limit_ms, f"queue {options.queue!r}")
            with self.lock:
                self.lock.wait_for(lambda: self._is_stopping, RETRY_MS / 1000)
            return
        self._outage.end()
        with self.lock:
            self._link = link
            self._is_lost = False
            self.ready = link.ready_at_opening
            _log.warning("queue %s: connected again", options.queue)

    def _open(self) -> QueueLink:
        options = self._options
        connection = open_connection(options.endpoint, self._name)
        try:
            if not options.is_auto and is_stream(connection, options.queue):
                raise OperatorError(
                    f"queue {options.queue!r} is a stream, and this is mode=queue, in which its "
                    "rows would be lost with each restart: leave option mode out"
                )
        except BaseException:
            connection.drop()
            raise
        return QueueLink(options.endpoint, options.queue, options.prefetch, self._name, connection)
