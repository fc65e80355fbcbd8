"""One channel of a client's connection, as the next node that leads is to have it.

Numbers of deliveries and of publishes begin at 1 with every broker, and go on for the client: what
is passed on is renumbered. An answer to a delivery of a broker that is gone goes nowhere, because
the message is in its queue again.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from penstock.base.errors import PenstockError
from penstock.forwarding.asked import (
    ANSWERS,
    ENTRY_BYTES,
    Publish,
    Request,
    Session,
    ids_of,
    number_of,
)
from penstock.forwarding.frame_cutter import HEADER, METHOD, Frame
from penstock.protocol.handshake import channel_open
from penstock.protocol.methods import table as m
from penstock.protocol.methods.base import Method
from penstock.protocol.methods.codec import decode_method, method_frame
from penstock.replication.seen import NOTHING, Answer, Run

if TYPE_CHECKING:
    from penstock.forwarding.kept_connection import KeptConnection

PUBLISH: Final = number_of(m.BasicPublish)
SETTLES: Final = ids_of(m.BasicAck, m.BasicNack, m.BasicReject)
CONFIRMS: Final = ids_of(m.BasicAck, m.BasicNack)
CONTENTS: Final = ids_of(m.BasicDeliver, m.BasicGetOk, m.BasicReturn)
DELIVER: Final = number_of(m.BasicDeliver)
GET: Final = number_of(m.BasicGet)
GET_OK: Final = number_of(m.BasicGetOk)
FLOW: Final = number_of(m.ChannelFlow)
FLOW_OK: Final = number_of(m.ChannelFlowOk)
CANCEL: Final = number_of(m.BasicCancel)
CANCEL_OK: Final = number_of(m.BasicCancelOk)
RECOVER_ASYNC: Final = number_of(m.BasicRecoverAsync)
OPEN_OK: Final = ids_of(m.ChannelOpenOk)
SESSIONS: Final = 8
"""Brokers that a channel may lose one after the other before the oldest is not asked for."""
HELD_BYTES: Final = 1_048_576
"""Of a connection's messages from the broker that are passed on when they are whole; larger ones
are passed on as they come, and such a client ends with the broker."""
OFFSET_KEY: Final = "x-stream-offset"
OFFSET_FIELD: Final = b"\x0fx-stream-offsetl"
STREAM_KEYS: Final = frozenset((OFFSET_KEY, "x-stream-filter", "x-stream-match-unfiltered"))
OWN_KEYS: Final = ("x-stream-", "x-lease-", "x-penstock-")
"""What the arguments begin with of consumers that know how far they are by other means."""

Qos = tuple[bytes, bytes]
"""The last basic.qos for each consumer, and for all of the channel, as frames; b"" for none."""


class Consumer:
    """asked: with its tag; qos: the frames in force when it was; size: bytes that are charged;
    offset: of the next message, of a stream's; is_stream: None before its first message."""

    __slots__ = ("asked", "is_stream", "offset", "qos", "size")

    def __init__(self, asked: m.BasicConsume, qos: Qos, size: int) -> None:
        self.asked = asked
        self.qos = qos
        self.size = size
        self.is_stream: bool | None = None
        self.offset = -1

    def again(self) -> m.BasicConsume:
        asked = self.asked
        arguments = asked.arguments
        if self.offset >= 0:
            arguments = arguments | {OFFSET_KEY: self.offset}
        return m.BasicConsume(
            queue=asked.queue,
            consumer_tag=asked.consumer_tag,
            no_local=asked.no_local,
            no_ack=asked.no_ack,
            exclusive=asked.exclusive,
            arguments=arguments,
        )


class KeptChannel:
    """publishes: by their numbers, oldest first; requests: that are not answered, in order;
    expected: answers of this broker in their order, each with its request, None for what was asked
    again in the client's place; owed: of the latter; session: of this broker, opening: the
    channel.open that says its reference, has_said: this broker was asked; lost_sessions: of those
    before it; seen: publishes that its log holds; has_unkept: for some there was no room; left:
    what is still to be said to it, in order; tags_before: numbers of deliveries up to this one were
    of brokers that are gone; tag: the last one.
    """

    __slots__ = (
        "connection",
        "consumers",
        "expected",
        "flow_ok_owed",
        "has_said",
        "has_unkept",
        "held",
        "held_consumer",
        "held_is_got",
        "held_missing",
        "held_offset",
        "held_tag",
        "is_confirm_done",
        "is_confirming",
        "is_open",
        "is_passing",
        "is_stopped",
        "is_tx",
        "is_tx_done",
        "last_queue",
        "left",
        "lost_sessions",
        "names_last_queue",
        "number",
        "opening",
        "order",
        "owed",
        "publishes",
        "qos",
        "requests",
        "seen",
        "sending",
        "seq",
        "session",
        "tag",
        "tags_before",
        "tx_settled",
        "tx_work",
    )

    def __init__(self, connection: "KeptConnection", number: int) -> None:
        self.connection = connection
        self.number = number
        self.is_open = False
        self.session = Session(connection.next_reference(), 0)
        self.lost_sessions: deque[Session] = deque(maxlen=SESSIONS)
        self.opening = channel_open(number, self.session.reference)
        self.seen = NOTHING
        self.left: Iterator[Request | Publish] = iter(())
        self.has_said = True
        self.has_unkept = False
        self.requests: deque[Request] = deque()
        self.expected: deque[tuple[frozenset[int], Request | None]] = deque()
        self.owed = 0
        self.order = 0
        self.is_confirming = False
        self.is_confirm_done = False
        self.seq = 0
        self.publishes: OrderedDict[int, Publish] = OrderedDict()
        self.sending: Publish | None = None
        self.is_tx = False
        self.is_tx_done = False
        self.tx_work = 0
        self.tx_settled = 0
        self.qos = (b"", b"")
        self.consumers: dict[str, Consumer] = {}
        self.last_queue = ""
        self.names_last_queue = False
        self.tags_before = 0
        self.tag = 0
        self.held: list[bytes] = []
        self.held_missing = -1
        self.held_tag = 0
        self.held_offset = -1
        self.held_consumer: Consumer | None = None
        self.held_is_got = False
        self.is_passing = False
        self.is_stopped = False
        self.flow_ok_owed = 0

    # -- from the client ---------------------------------------------------------------------------

    def from_client(self, frame: Frame) -> None:
        kind, _, ids, data = frame
        if kind != METHOD:
            self._content(kind, data)
        elif ids == PUBLISH:
            self._publish(data)
        elif ids in SETTLES:
            self._settle(data)
        elif ids in ANSWERS:
            self._request(ids, data)
        elif ids == FLOW_OK and self.flow_ok_owed:
            self.flow_ok_owed -= 1
        else:
            if ids not in (FLOW_OK, CANCEL_OK, RECOVER_ASYNC):
                self.connection.share.refuse("it asks for what only this broker knows")
            self.connection.to_broker.append(data)

    def _publish(self, data: bytes) -> None:
        if self.is_confirming:
            self.seq += 1
        if self.is_tx:
            self.tx_work += 1
        self.order += 1
        publish = Publish(self.order, self.seq if self.is_confirming else 0)
        if publish.seq:
            self.publishes[publish.seq] = publish
        self.sending = publish
        self._add(publish, data)

    def _content(self, kind: int, data: bytes) -> None:
        publish = self.sending
        if publish is None:
            self.connection.to_broker.append(data)
            return
        if kind == HEADER:
            publish.missing = int.from_bytes(data[11:19], "big")
        else:
            publish.missing -= len(data) - 8
        self._add(publish, data)
        if publish.missing <= 0:
            self.sending = None
            if not publish.seq:
                self._forget(publish)

    def _add(self, publish: Publish, data: bytes) -> None:
        if not publish.is_dropped:
            self.connection.to_broker.append(data)
        if publish.frames is not None:
            size = len(data) + (0 if publish.frames else ENTRY_BYTES)
            if self.connection.share.charge(size):
                publish.size += size
                publish.frames.append(data)
            else:
                self._forget(publish)
                publish.frames = None
                self.has_unkept = True

    def _forget(self, publish: Publish) -> None:
        self.connection.share.repay(publish.size)
        publish.size = 0

    def _settle(self, data: bytes) -> None:
        if self.is_tx:
            self.tx_work += 1
        before = self.tags_before
        if before:
            tag = int.from_bytes(data[11:19], "big")
            if 0 < tag <= before:
                return
            if tag:
                data = data[:11] + (tag - before).to_bytes(8, "big") + data[19:]
        self.connection.to_broker.append(data)

    def _request(self, ids: int, data: bytes) -> None:
        method = decode_method(data[7:-1])
        if getattr(method, "queue", "-") == "" and not isinstance(method, m.QueueDeclare):
            self.names_last_queue = True
            data = self._with_queue(method, data)
        match method:
            case m.ChannelOpen():
                data = self.opening
            case m.ConfirmSelect():
                self.is_confirming = True
            case m.TxSelect():
                self.is_tx = True
            case m.BasicCancel(consumer_tag=tag):
                self._cancelled(tag)
            case m.BasicConsume(arguments=arguments):
                if any(key.startswith(OWN_KEYS) and key not in STREAM_KEYS for key in arguments):
                    self.connection.share.refuse("it reads a lease, a group, or chunks")
        self.order += 1
        is_silent = _is_silent(method)
        if is_silent:
            data = method_frame(self.number, method)
        request = Request(self.order, method, data, ANSWERS[ids], is_silent=is_silent)
        request.mark = self.tx_work
        if not self.connection.share.keep(request.size):
            request.size = 0
        self.requests.append(request)
        self.expected.append((request.answers, request))
        self.connection.to_broker.append(data)

    def _with_queue(self, method: Method, data: bytes) -> bytes:
        """No name means the queue that was declared last, which another broker does not know."""
        if self.last_queue:
            if getattr(method, "routing_key", None) == "" and isinstance(method, m.QueueBind):
                method.routing_key = self.last_queue
            setattr(method, "queue", self.last_queue)  # noqa: B010
            return method_frame(self.number, method)
        return data

    # -- from the broker ---------------------------------------------------------------------------

    def from_broker(self, frame: Frame) -> None:
        kind, _, ids, data = frame
        if kind != METHOD:
            self._held(kind, data)
        elif ids in CONTENTS:
            self._hold(ids, data)
        elif ids in CONFIRMS:
            self._confirmed(data)
        elif self.expected and ids in self.expected[0][0]:
            self._answered(ids, data)
        else:
            if ids == CANCEL:
                method = decode_method(data[7:-1])
                assert isinstance(method, m.BasicCancel), "its ids say so"
                self._cancelled(method.consumer_tag)
            elif ids == FLOW:
                self.is_stopped = not data[11] & 1
            self.connection.to_client.append(data)

    def _answered(self, ids: int, data: bytes) -> None:
        _, request = self.expected.popleft()
        if request is None:
            self._owe(-1)
            return
        self.requests.popleft()
        self._done(request, decode_method(data[7:-1]))
        if not request.is_silent:
            self.connection.to_client.append(data)

    def _got(self) -> None:
        """A message that was asked for has come as a whole."""
        if self.expected and GET_OK in self.expected[0][0]:
            self.expected.popleft()
            self.connection.share.repay(self.requests.popleft().size)

    def _done(self, request: Request, answer: Method) -> None:
        method = request.method
        self.connection.share.repay(request.size)
        match method:
            case m.ChannelOpen():
                self.is_open = True
            case m.ConfirmSelect():
                self.is_confirm_done = True
            case m.TxSelect():
                self.is_tx_done = True
                self.tx_settled = request.mark
            case m.TxCommit() | m.TxRollback():
                self.tx_settled = request.mark
            case m.BasicQos():
                each, all_of_it = self.qos
                frame = request.data
                self.qos = (each, frame) if method.global_ else (frame, all_of_it)
            case m.BasicConsume():
                tag = method.consumer_tag
                if isinstance(answer, m.BasicConsumeOk):
                    tag = method.consumer_tag = answer.consumer_tag
                method.queue = method.queue or self.last_queue
                self._consuming(tag, Consumer(method, self.qos, len(request.data) + ENTRY_BYTES))
            case m.BasicCancel(consumer_tag=tag):
                # It may have been on its way when the client cancelled it.
                self._cancelled(tag)
            case m.QueueDeclare():
                name = answer.queue if isinstance(answer, m.QueueDeclareOk) else method.queue
                self.last_queue = name
                self.connection.topology.note(method, name)
            case _:
                self.connection.topology.note(method, "")

    def _consuming(self, tag: str, consumer: Consumer) -> None:
        if self.connection.share.keep(consumer.size):
            self.consumers[tag] = consumer
            self.connection.consumers[consumer.asked.queue] += 1

    def _cancelled(self, tag: str) -> None:
        consumer = self.consumers.pop(tag, None)
        if consumer is not None:
            self.connection.share.repay(consumer.size)
            self.connection.consumer_left(consumer.asked.queue)

    def _hold(self, ids: int, data: bytes) -> None:
        """The beginning of a message: passed on when it is whole, because half of one cannot be
        taken back."""
        self.held_tag = 0
        self.held_consumer = None
        if ids == DELIVER:
            at = 12 + data[11]
            data = self._numbered(data, at)
            self.held_consumer = self.consumers.get(str(data[12:at], "utf-8", "replace"))
        elif ids == GET_OK:
            data = self._numbered(data, 11)
        self.held_is_got = ids == GET_OK
        self.held = [data]
        self.connection.held_bytes += len(data)
        self.held_missing = -1
        self.is_passing = False

    def _numbered(self, data: bytes, at: int) -> bytes:
        tag = int.from_bytes(data[at : at + 8], "big") + self.tags_before
        self.held_tag = tag
        return data[:at] + tag.to_bytes(8, "big") + data[at + 8 :] if self.tags_before else data

    def _held(self, kind: int, data: bytes) -> None:
        connection = self.connection
        self.held.append(data)
        connection.held_bytes += len(data)
        if kind == HEADER:
            self.held_missing = int.from_bytes(data[11:19], "big")
            if self.held_consumer is not None and self.held_consumer.is_stream is not False:
                self._look_for_offset(self.held_consumer, data)
        else:
            self.held_missing -= len(data) - 8
        is_whole = self.held_missing <= 0
        if is_whole or self.is_passing or connection.held_bytes > HELD_BYTES:
            connection.to_client += self.held
            self._drop_held()
            self.is_passing = not is_whole
            if is_whole:
                if self.held_is_got:
                    self._got()
                self.tag = max(self.tag, self.held_tag)
                consumer = self.held_consumer
                if consumer is not None and consumer.is_stream:
                    consumer.offset = self.held_offset + 1

    def _drop_held(self) -> None:
        self.connection.held_bytes -= sum(map(len, self.held))
        self.held.clear()

    def _look_for_offset(self, consumer: Consumer, header: bytes) -> None:
        at = header.rfind(OFFSET_FIELD)
        consumer.is_stream = at >= 0
        if at >= 0:
            at += len(OFFSET_FIELD)
            self.held_offset = int.from_bytes(header[at : at + 8], "big")

    def _confirmed(self, data: bytes) -> None:
        tag = int.from_bytes(data[11:19], "big")
        seq = self.session.seq_of(tag)
        if data[19] & 1:
            while self.publishes:
                number, publish = self.publishes.popitem(last=False)
                if number > seq:
                    self.publishes[number] = publish
                    self.publishes.move_to_end(number, last=False)
                    break
                self._forget(publish)
        elif (one := self.publishes.pop(seq, None)) is not None:
            self._forget(one)
        if seq != tag:
            data = data[:11] + seq.to_bytes(8, "big") + data[19:]
        self.connection.to_client.append(data)

    # -- from one broker to the next ---------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        """Whether the client has closed it, and has no answer yet."""
        return any(isinstance(one.method, m.ChannelClose) for one in self.requests)

    def lost(self) -> bool:
        """The broker is gone. Tell the client what cannot be had again. False: the channel is over.
        Raises: CannotKeep."""
        if self.is_passing:
            raise CannotKeep("a large message had come in part")
        self._drop_held()
        self.expected.clear()
        self._owe(-self.owed)
        self.tags_before = self.tag
        to_client = self.connection.to_client
        if self.is_ending:
            to_client.append(method_frame(self.number, m.ChannelCloseOk()))
            self.let_go()
            return False
        is_committing = any(isinstance(one.method, m.TxCommit) for one in self.requests)
        if self.is_tx and (is_committing or self.tx_work != self.tx_settled):
            words = "INTERNAL_ERROR - the node that led is gone, and the transaction with it"
            to_client.append(method_frame(self.number, m.ChannelClose(541, words, 0, 0)))
            self.connection.is_closing[self.number] = self.connection.sessions
            self.let_go()
            return False
        if self.has_unkept:
            self.has_unkept = False
            for seq in [seq for seq, one in self.publishes.items() if one.frames is None]:
                del self.publishes[seq]
                to_client.append(method_frame(self.number, m.BasicNack(delivery_tag=seq)))
        if self.has_said:
            # Not again, should the next broker be lost before it is asked.
            self.has_said = False
            self.session.end = self.seq
            self.lost_sessions.append(self.session)
        if not self.publishes:
            self.lost_sessions.clear()
        if self.sending is not None and self.sending.frames is None:
            self.sending.is_dropped = True
        if self.is_stopped:
            self.is_stopped = False
            self.flow_ok_owed += 1
            to_client.append(method_frame(self.number, m.ChannelFlow(active=True)))
        return True

    def unknown(self) -> list[Run]:
        """Publishes of which nobody knows what became of them."""
        oldest = next(iter(self.publishes), self.seq + 1)
        return [run for session in self.lost_sessions for run in session.unknown(oldest)]

    def ask_again(self, seen: Answer) -> None:
        """Everything, of a broker that knows nothing of it; then `say_some`. seen: publishes that
        its log holds."""
        self.session = Session(self.connection.next_reference(), self.seq)
        self.opening = channel_open(self.number, self.session.reference)
        self.seen = seen
        # Who waits for confirm.select-ok takes no confirm before it.
        waited = [one.method for one in self.requests if not one.is_silent]
        if any(isinstance(one, m.ConfirmSelect) for one in waited):
            self.seen = NOTHING
        self.has_said = True
        if self.is_open:
            self._ask(self.opening, OPEN_OK)
        if self.is_confirm_done:
            self._ask_for(m.ConfirmSelect())
        if self.is_tx_done:
            self._ask_for(m.TxSelect())
        said = (b"", b"")
        for consumer in self.consumers.values():
            said = self._ask_qos(consumer.qos, said)
            self._ask_for(consumer.again())
        self._ask_qos(self.qos, said)
        if self.names_last_queue and self.last_queue:
            self._ask_for(m.QueueDeclare(queue=self.last_queue, passive=True))
        publishes = list(self.publishes.values())
        if self.sending is not None and not self.sending.seq and not self.sending.is_dropped:
            publishes.append(self.sending)
        self.left = merge([*self.requests], publishes, key=attrgetter("order"))

    def say_some(self, count: int) -> bool:
        """So many of what is left to be said to a broker that was asked again. False: that was
        all."""
        to_broker = self.connection.to_broker
        for entry in islice(self.left, count):
            count -= 1
            if isinstance(entry, Request):
                is_opening = isinstance(entry.method, m.ChannelOpen)
                to_broker.append(self.opening if is_opening else entry.data)
                self.expected.append((entry.answers, entry))
            elif entry.seq and self._is_seen(entry.seq):
                self._drop(entry)
            else:
                to_broker += entry.frames or ()
                if entry.seq:
                    self.session.resent.append(entry.seq)
        return count == 0

    def _is_seen(self, seq: int) -> bool:
        return any(session.is_seen(seq, self.seen) for session in self.lost_sessions)

    def _drop(self, publish: Publish) -> None:
        """The log has it: the client has its confirm, and it is not sent again."""
        del self.publishes[publish.seq]
        self._forget(publish)
        self.connection.dropped += 1
        ack = method_frame(self.number, m.BasicAck(delivery_tag=publish.seq))
        self.connection.to_client.append(ack)

    def _ask_for(self, method: Method) -> None:
        self._ask(method_frame(self.number, method), ANSWERS[number_of(type(method))])

    def _ask(self, data: bytes, answers: frozenset[int]) -> None:
        self.connection.to_broker.append(data)
        self.expected.append((answers, None))
        self._owe(1)

    def _owe(self, change: int) -> None:
        self.owed += change
        self.connection.owed += change

    def _ask_qos(self, wanted: Qos, said: Qos) -> Qos:
        for new, old in zip(wanted, said, strict=True):
            if new != old:
                self._ask(new, ANSWERS[number_of(m.BasicQos)])
        return wanted

    def let_go(self) -> None:
        """The channel is over: what was kept of it is not."""
        self._owe(-self.owed)
        for publish in self.publishes.values():
            self._forget(publish)
        self.publishes.clear()
        self._drop_held()
        if self.sending is not None:
            self._forget(self.sending)
            self.sending = None
        for request in self.requests:
            self.connection.share.repay(request.size)
        self.requests.clear()
        for tag in list(self.consumers):
            self._cancelled(tag)


def _is_silent(method: Method) -> bool:
    """Whether the client wants no answer. Then the broker is asked for one all the same: nothing
    else tells that it is done, and not to be asked for once more."""
    match method:
        case (
            m.ExchangeDeclare()
            | m.ExchangeDelete()
            | m.ExchangeBind()
            | m.ExchangeUnbind()
            | m.QueueDeclare()
            | m.QueueBind()
            | m.QueuePurge()
            | m.QueueDelete()
            | m.BasicConsume()
            | m.BasicCancel()
            | m.ConfirmSelect()
        ) if method.no_wait:
            method.no_wait = False
            return True
    return False


class CannotKeep(PenstockError):
    """The client's connection ends with its broker; in words."""
