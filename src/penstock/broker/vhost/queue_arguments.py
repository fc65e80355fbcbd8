"""Whether a queue's or a consumer's arguments make sense, in RabbitMQ's words, for each queue type.

    classic   one copy; any properties
    quorum    taken with one replica, on this node: it has to be durable, shared and named by the
              client, and gives a message up after QUORUM_DELIVERY_LIMIT redeliveries
    stream    a log that many read, each from a place of its own; durable, shared and named by the
              client too, see broker/stream/stream_actor

Codes and texts are those of RabbitMQ's rabbit_quorum_queue; the limit is that of RabbitMQ 4.
Source: RabbitMQ's rabbit_amqqueue (declare_args, consume_args) and rabbit_exchange. Arguments that
are not in the table are taken and kept, as RabbitMQ does.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from penstock.base.errors import ChannelFault
from penstock.broker.actors.log import Log
from penstock.broker.vhost.equivalence import type_name
from penstock.broker.vhost.stream_arguments import (
    BASIC_CONSUME,
    QUEUE_DECLARE,
    STREAM,
    check_stream,
    check_stream_consumer,
    foreign,
    invalid,
)
from penstock.protocol import methods as m
from penstock.protocol.integers import Timestamp
from penstock.protocol.values import Table, Value
from penstock.queues.rules import OVERFLOW_NAMES, QUORUM, QUORUM_DELIVERY_LIMIT

TYPE_KEY: Final = "x-queue-type"
NOT_OF_QUORUM: Final = ("x-max-priority", "x-queue-mode", "x-queue-version")

TYPES: Final = ("classic", QUORUM, STREAM)
Check = Callable[[Value, Table], str]

LIFETIME_MS_MAX = (1 << 64) - 1
"""Longer than RabbitMQ's 2**32 - 1, because native delayed delivery of Celery needs 2**27 s."""


def _integer(value: Value) -> str:
    if isinstance(value, bool | Timestamp) or not isinstance(value, int):
        return f'"expected integer, got {type_name(value)}"'
    return ""


def _not_negative(value: Value, table: Table) -> str:
    fault = _integer(value)
    if fault == "" and isinstance(value, int) and value < 0:
        return f"{{value_negative,{value}}}"
    return fault


def _lifetime(value: Value, table: Table) -> str:
    fault = _not_negative(value, table)
    if fault == "" and isinstance(value, int) and value > LIFETIME_MS_MAX:
        return f"{{value_too_large,{value}}}"
    return fault


def _zero(value: Value) -> str:
    return "{value_zero,0}" if value == 0 and not isinstance(value, bool) else ""


def _positive_lifetime(value: Value, table: Table) -> str:
    return _zero(value) or _lifetime(value, table)


def _priority_levels(value: Value, table: Table) -> str:
    fault = _not_negative(value, table)
    if fault == "" and isinstance(value, int) and value > 255:
        return f"{{max_value_exceeded,{value}}}"
    return fault


def _text(value: Value, table: Table) -> str:
    return "" if isinstance(value, str) else f"{{unacceptable_type,{type_name(value)}}}"


def _one_of(check: Check, known: Sequence[object], words: str) -> Check:
    """What passes `check` has to be among `known`; words: otherwise, {} for the value."""

    def among(value: Value, table: Table) -> str:
        return check(value, table) or ("" if value in known else words.replace("{}", f"{value!s}"))

    return among


def _group_size(value: Value, table: Table) -> str:
    return _zero(value) or _not_negative(value, table)


def _key(value: Value, table: Table) -> str:
    fault = _text(value, table)
    return fault or ("" if value else '"expected a header\'s name or routing-key, got nothing"')


def _dead_letter_key(value: Value, table: Table) -> str:
    fault = _text(value, table)
    if fault == "" and "x-dead-letter-exchange" not in table:
        return "routing_key_but_no_dlx_defined"
    return fault


def _bool(value: Value, table: Table) -> str:
    return "" if isinstance(value, bool) else f"{{unacceptable_type,{type_name(value)}}}"


def _any_integer(value: Value, table: Table) -> str:
    return _integer(value)


QUEUE_CHECKS: dict[str, Check] = {
    "x-consumer-timeout": _lifetime,
    "x-expires": _positive_lifetime,
    "x-message-ttl": _lifetime,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-depth-mark": _lifetime,
    "x-dead-letter-strategy": _one_of(
        _text, ("at-most-once", "at-least-once"), "invalid_dlx_strategy"
    ),
    # Below 0 is no limit, which is how a quorum queue does without.
    "x-delivery-limit": _any_integer,
    "x-last-value-key": _key,
    "x-message-deduplication": _bool,
    "x-max-length": _not_negative,
    "x-max-length-bytes": _not_negative,
    "x-max-priority": _priority_levels,
    "x-overflow": _one_of(_text, OVERFLOW_NAMES, "invalid_overflow"),
    "x-queue-leader-locator": _one_of(
        _text, ("client-local", "balanced"), "invalid_queue_locator_arg"
    ),
    "x-queue-mode": _one_of(_text, ("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-type": _one_of(_text, TYPES, "\"unsupported queue type '{}'\""),
    "x-queue-version": _one_of(_not_negative, (1, 2), "\"unsupported queue version '{}'\""),
    "x-quorum-initial-group-size": _group_size,
    "x-single-active-consumer": _bool,
}

CONSUMER_CHECKS: dict[str, Check] = {"x-priority": _any_integer}

OF_STREAMS = ("x-max-age", "x-stream-max-segment-size-bytes", "x-stream-filter-size-bytes")
OF_STREAM_CONSUMERS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")
"""Arguments of streams, which RabbitMQ (3.13) refuses for any other kind of queue."""


def is_quorum(table: Mapping[str, object]) -> bool:
    """Whether a queue with these arguments is declared as a quorum queue."""
    return table.get(TYPE_KEY) == QUORUM


def is_stream(table: Mapping[str, object]) -> bool:
    """Whether a queue with these arguments is declared as a stream."""
    return table.get(TYPE_KEY) == STREAM


def type_of(table: Mapping[str, object]) -> str:
    """The type of a queue with these arguments, as x-queue-type has it."""
    if is_stream(table):
        return STREAM
    return QUORUM if is_quorum(table) else "classic"


def type_in_words(table: Mapping[str, object]) -> str:
    """What the type makes of a queue, for listings; "" for a classic one."""
    if is_stream(table):
        return STREAM
    return QUORUM if is_quorum(table) else ""


def check_type(name: str, vhost: str, table: Mapping[str, object]) -> None:
    """Raise ChannelFault 406 for a name or an argument that queues of this type do not have."""
    if is_stream(table):
        check_stream(name, vhost, table)
        return
    if not is_quorum(table):
        return
    if name == "":
        raise _fault("Cannot declare a server-named queue for type rabbit_quorum_queue")
    for key in NOT_OF_QUORUM:
        if key in table:
            raise foreign(key, name, vhost, QUORUM)


def check_consumer(
    name: str, vhost: str, table: Mapping[str, object], q: m.BasicConsume, prefetch: int
) -> None:
    """Raise ChannelFault 406 if the queue with the arguments `table` has no consumer as `q` asks
    for. prefetch: of its channel."""
    if is_stream(table):
        check_stream_consumer(name, vhost, q, prefetch)
    else:
        check_classic_consumer(name, vhost, q.arguments)


def check_properties(
    name: str,
    vhost: str,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    table: Mapping[str, object],
) -> None:
    """Raise ChannelFault 406 for a new queue with a property that this type does not have."""
    if not is_quorum(table) and not is_stream(table):
        return
    for has_it, word in (
        (auto_delete, "auto-delete"),
        (exclusive, "exclusive-owner"),
        (not durable, "non-durable"),
    ):
        if has_it:
            raise _fault(f"invalid property '{word}' for queue '{name}' in vhost '{vhost}'")


def _fault(text: str) -> ChannelFault:
    return ChannelFault(406, text, 50, 10)


def check_queue(name: str, vhost: str, table: Table) -> None:
    """Raise ChannelFault 406 for the first argument that makes no sense."""
    exchange = table.get("x-dead-letter-exchange")
    if exchange is not None and not isinstance(exchange, str):
        raise ChannelFault(
            406,
            f"invalid type '{type_name(exchange)}' for arg 'x-dead-letter-exchange' in queue "
            f"'{name}' in vhost '{vhost}'",
            50,
            10,
        )
    _check(QUEUE_CHECKS, name, vhost, table, QUEUE_DECLARE)
    if table.get("x-queue-type") != STREAM:
        _refuse(OF_STREAMS, name, vhost, table, QUEUE_DECLARE)


def check_exchange(name: str, vhost: str, table: Table) -> None:
    """Raise ChannelFault 406 if an exchange's arguments make no sense."""
    alternate = table.get("alternate-exchange")
    if alternate is not None and not isinstance(alternate, str):
        raise ChannelFault(
            406,
            f"invalid type '{type_name(alternate)}' for arg 'alternate-exchange' in exchange "
            f"'{name}' in vhost '{vhost}'",
            40,
            10,
        )


def check_classic_consumer(name: str, vhost: str, table: Table) -> None:
    """Raise ChannelFault 406 for the first argument that makes no sense."""
    _check(CONSUMER_CHECKS, name, vhost, table, BASIC_CONSUME)
    _refuse(OF_STREAM_CONSUMERS, name, vhost, table, BASIC_CONSUME)


def _check(
    checks: dict[str, Check], name: str, vhost: str, table: Table, method: tuple[int, int]
) -> None:
    for key, check in checks.items():
        if key in table:
            fault = check(table[key], table)
            if fault != "":
                raise invalid(key, name, vhost, fault, method)


def _refuse(
    keys: tuple[str, ...], name: str, vhost: str, table: Table, method: tuple[int, int]
) -> None:
    for key in table:
        if key in keys:
            raise foreign(key, name, vhost, "classic", method)


class KindNotes:
    """Says in the log what a quorum queue is without a cluster. Once, because applications declare
    many.

    is_said: it was, or has not to be."""

    __slots__ = ("is_said", "log")

    def __init__(self, log: Log) -> None:
        self.log = log
        self.is_said = False

    def made(self, vhost: str, name: str, table: Mapping[str, object]) -> None:
        """A queue has been declared."""
        if not self.is_said and is_quorum(table):
            self.is_said = True
            self.log.warning(
                f"queue '{name}' in vhost '{vhost}' is declared with {TYPE_KEY} 'quorum': it has "
                "one replica, as this broker is of no cluster; a message is "
                f"given up after {QUORUM_DELIVERY_LIMIT} redeliveries unless x-delivery-limit or "
                "a policy says otherwise"
            )
