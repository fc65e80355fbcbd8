"""What the dead letters of all queues share: where queues and timers are, bounds, the log."""

from typing import Final

from mypy_extensions import i64

from penstock.base.limits import (
    DEAD_LETTER_BACKLOG,
    DEAD_LETTER_BACKLOG_BYTES,
    DEAD_LETTER_RETRY_MS,
    DEAD_LETTER_WINDOW,
    DEAD_LETTER_WINDOW_BYTES,
)
from penstock.broker.dead_letter.hashed_properties import with_properties
from penstock.broker.queue.queue_actor import QueueActor, QueueTarget
from penstock.broker.vhost.context import Context
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.content import Message
from penstock.protocol.property_lookup import PROPERTIES_OFFSET, headers_table_span
from penstock.protocol.values import Table, decode_table
from penstock.queues.dead_letter import Obituary, obituary
from penstock.queues.rules import DROP_NAMES
from penstock.routing.exchange import Exchange

NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000


class DeadLetterManager:
    """vhosts: of the broker, live; dues: where timers stand; window, window_bytes: letters of one
    queue under way, window 0 for any number (RabbitMQ's at-most-once); backlog, backlog_bytes: of
    one queue; retry_ns: until an unconfirmed letter is published again; believes_all: see
    queues/dead_letter."""

    __slots__ = (
        "backlog",
        "backlog_bytes",
        "believes_all",
        "confirmed_window",
        "dues",
        "log",
        "retry_ns",
        "vhosts",
        "window",
        "window_bytes",
    )

    def __init__(self, context: Context) -> None:
        self.vhosts = context.vhosts
        self.dues = context.dues
        self.log = context.log
        self.believes_all = context.profile.believes_deaths
        self.window = DEAD_LETTER_WINDOW.default if context.profile.is_parking else 0
        self.confirmed_window = DEAD_LETTER_WINDOW.default
        self.window_bytes: i64 = DEAD_LETTER_WINDOW_BYTES.default
        self.backlog: i64 = DEAD_LETTER_BACKLOG.default
        self.backlog_bytes: i64 = DEAD_LETTER_BACKLOG_BYTES.default
        self.retry_ns = DEAD_LETTER_RETRY_MS.default * NS_PER_MS

    def window_of(self, is_confirmed: bool) -> int:
        """Letters of one queue under way; with a confirm each, as RabbitMQ's, always bounded."""
        return self.confirmed_window if is_confirmed else self.window

    def obituary(
        self, actor: QueueActor, message: Message, reason: i64, routing_key: str | None
    ) -> Obituary:
        """What to publish for `message`, which died in `actor` now. reason: rules.REASON_*; rest
        and errors: see queues/dead_letter."""
        time_s = actor.line.clock.wall_ns() // NS_PER_S
        word = DROP_NAMES[reason]
        return obituary(message, actor.name, word, time_s, routing_key, self.believes_all)

    def route(
        self, vhost: VirtualHost, exchange: Exchange, written: Obituary, is_confirmed: bool
    ) -> list[QueueTarget]:
        """The queues that `written` goes to from `exchange`. is_confirmed: it may be published
        again, and would be its own duplicate if an exchange remembered it."""
        headers = self.headers_for(vhost, exchange, written)
        targets = vhost.route(exchange, written.keys, headers)
        if not is_confirmed:
            vhost.router.settle()
        return targets

    def headers_for(self, vhost: VirtualHost, exchange: Exchange, written: Obituary) -> Table:
        """The headers a route from `exchange` may depend on, {} when it does not."""
        if not vhost.router.needs_headers(exchange):
            return {}
        header = written.message.header()
        span = headers_table_span(header, PROPERTIES_OFFSET)
        headers: Table = {} if span is None else decode_table(header, span[0], span[1])[0]
        if vhost.router.property_exchanges > 0:
            headers = with_properties(header, headers)
        return headers
