"""Requests beyond AMQP (class request): from a verb to who does it, and the answer back.

    performed -> Ticket settled     answered at once
              -> Ticket open        the channel waits; `settle`, `refuse` make it go on
One request of a channel is under way at most, because those behind it wait in its inbox.
A channel that ends meanwhile answers nothing; what was begun is carried out.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

from penstock.broker.actors.cleanup import InSteps
from penstock.broker.actors.cooperative import Steps
from penstock.broker.channel.channel import Channel
from penstock.broker.session.declare import Declarations
from penstock.broker.session.lease_requests import lease_acquire, lease_release, lease_state
from penstock.broker.session.session import Session
from penstock.broker.session.stream_requests import (
    group_advance,
    group_list,
    group_register,
    group_remove,
    stream_offsets,
)
from penstock.broker.session.tickets import Ask, Ticket, refused
from penstock.broker.session.transaction_requests import TRANSACTION_HANDLERS
from penstock.broker.vhost.queue_arguments import is_stream
from penstock.broker.vhost.rights import READ
from penstock.broker.vhost.super_streams import partitions_of
from penstock.broker.vhost.vhost import REPLY_PREFIX
from penstock.protocol import methods as m
from penstock.protocol.values import Value

QUEUE: Final = "queue"
STREAM: Final = "stream"
FRAME_SPARE_BYTES: Final = 256
NAME_BYTES_MAX: Final = 260
"""A name of 255 bytes in a list, with its kind and length."""
PAGE_NAMES_MAX: Final = 400
STEP_NAMES: Final = 1_000
NONE_WAITING: Final[dict[int, Ticket]] = {}
"""What all sessions share in which no request is under way."""


def queue_list(ask: Ask) -> None:
    """queue.list {type, after} -> {names, is_last}: names of the queues that are streams, or are
    none, in order, those behind `after`; as many as surely fit a frame. Not those that are
    exclusive, which others cannot use, nor what the broker has made for itself, nor what the user
    may not read.

    Raises: ChannelFault 406."""
    kind, after = ask.text("type"), ask.text("after", "")
    if kind not in (QUEUE, STREAM):
        raise refused(f"argument 'type' is '{kind}'; it takes '{QUEUE}' or '{STREAM}'")
    ask.session.host.cleanup.begin(InSteps(_listing(ask, kind == STREAM, after)))


def _listing(ask: Ask, is_for_streams: bool, after: str) -> Steps[None]:
    """In steps, because there may be very many of which the user may read none."""
    queues, rights = ask.session.vhost.queues, ask.session.rights
    room = _names_in_frame(ask)
    found: list[Value] = []
    for count, name in enumerate(sorted(name for name in queues if name > after), 1):
        actor = queues.get(name)
        if (
            actor is not None
            and actor.owner == ""
            and is_stream(actor.arguments) == is_for_streams
            and not actor.is_internal
            and not name.startswith(REPLY_PREFIX)
            and rights.may(READ, name)
        ):
            found.append(name)
        if len(found) > room:
            break
        if count % STEP_NAMES == 0:
            yield 0.0
    ask.ticket.settle({"names": found[:room], "is_last": len(found) <= room})


def stream_partitions(ask: Ask) -> None:
    """stream.partitions {super_stream, from} -> {names, is_last}: the streams that are bound to the
    exchange, in the order of x-stream-partition-order, without the first `from`; as many as surely
    fit a frame.

    Raises: ChannelFault 403 where the user may not read all of them, because a part looks like the
    whole, 404 for an exchange there is not, 406."""
    name, vhost = ask.text("super_stream"), ask.session.vhost
    behind = ask.number_of("from", 0, 2**31, 0)
    exchange = vhost.find_exchange(name) if name else None
    if exchange is None:
        raise refused(f"no exchange '{name}' in vhost '{vhost.name}'", 404)
    found = partitions_of(vhost, exchange)[behind:]
    if not all(ask.session.rights.may(READ, one.name) for one in found):
        text = f"access to streams of super stream '{name}' in vhost '{vhost.name}' refused"
        raise refused(f"{text} for user '{ask.session.rights.user}'", 403)
    room = _names_in_frame(ask)
    names: list[Value] = [one.name for one in found[:room]]
    ask.ticket.settle({"names": names, "is_last": len(found) <= room})


def _names_in_frame(ask: Ask) -> int:
    frame_bytes = ask.ticket.frame_bytes_max()
    if frame_bytes <= 0:
        return PAGE_NAMES_MAX
    return min(PAGE_NAMES_MAX, max(1, (frame_bytes - FRAME_SPARE_BYTES) // NAME_BYTES_MAX))


Verb: TypeAlias = tuple[Callable[[Ask], None], str]
"""Who does it, and the names of the arguments it looks at."""

HANDLERS: Final[Mapping[str, Verb]] = MappingProxyType(
    {
        "lease.acquire": (
            lease_acquire,
            "queue group start max_messages max_bytes timeout_ms query accept_loss forgettable",
        ),
        "lease.release": (lease_release, "queue group forget"),
        "lease.state": (lease_state, "queue group first stop"),
        "queue.list": (queue_list, "type after"),
        "stream.group.advance": (group_advance, "queue group offset"),
        "stream.group.register": (
            group_register,
            "queue group offset max_lag_messages max_lag_bytes",
        ),
        "stream.group.remove": (group_remove, "queue group"),
        "stream.groups": (group_list, "queue"),
        "stream.offsets": (stream_offsets, "queue"),
        "stream.partitions": (stream_partitions, "super_stream from"),
        **TRANSACTION_HANDLERS,
    }
)


class Requests:
    """The requests of the channels of one session. waiting: by channel number."""

    __slots__ = ("declarations", "session", "waiting")

    def __init__(self, session: Session, declarations: Declarations) -> None:
        self.session = session
        self.declarations = declarations
        self.waiting: dict[int, Ticket] = NONE_WAITING

    def ask(self, channel: Channel, q: m.RequestAsk) -> m.Method | None:
        """Begin `q`, or end it if it was begun before.

        Raises: ChannelFault 540 for a verb there is not, 406 for an argument that it does not
        have, and what the verb raises."""
        number = int(channel.number)
        ticket = self.waiting.pop(number, None)
        if ticket is None:
            ticket = Ticket(channel)
            _handler(q)(Ask(self.session, self.declarations, number, q.arguments, ticket))
        if ticket.fault is not None:
            raise ticket.fault
        if ticket.answer is not None:
            return m.RequestAskOk(ticket.answer)
        if not channel.inbox.is_ending:
            ticket.is_awaited = True
            if self.waiting is NONE_WAITING:
                self.waiting = {}
            self.waiting[number] = ticket
            channel.inbox.is_parked = True
        return None

    def release(self, number: int) -> None:
        """The channel `number` has ended."""
        self.waiting.pop(number, None)


def _handler(q: m.RequestAsk) -> Callable[[Ask], None]:
    """Who does `q`. Raises: ChannelFault 540, and 406 for a misspelt argument, which would be read
    as its default."""
    found = HANDLERS.get(q.verb)
    if found is None:
        known = ", ".join(sorted(HANDLERS))
        raise refused(f"no request '{q.verb}'; there are: {known}", 540)
    handler, names = found
    for name in q.arguments:
        if name not in names.split():
            raise refused(f"{q.verb} has no argument '{name}'; it has: {names.replace(' ', ', ')}")
    return handler
