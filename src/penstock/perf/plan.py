"""The plan of a load run: every option of `penstock perf`, checked once, and the topology it needs.

Exchange, queues and bindings are declared over one blocking connection, or found there.
"""

from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import QUEUES_PER_VHOST
from penstock.base.policy import NAME_BYTES_MAX
from penstock.client.errors import ChannelClosedError
from penstock.client.io_blocking import Channel, Connection
from penstock.perf.meter import STAMP_BYTES
from penstock.protocol.values import Table

_NOT_FOUND: Final = 404


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """One load run. Counts are per producer or per consumer where the name says so.

    size_bytes_min..max: body sizes, drawn evenly; rate_per_s: messages a second and producer,
    0 for as fast as possible; confirms_max: publishes that may be unconfirmed, 0 for no confirms;
    prefetch: 0 for no bound; duration_s, warm_up_s, grace_s: seconds; consumer_latency_us:
    microseconds of pretended work per message; messages_per_*: 0 for no count.
    Raises: OperatorError for options that cannot go together, naming both.
    """

    producers: int = 1
    consumers: int = 1
    size_bytes_min: int = STAMP_BYTES
    size_bytes_max: int = STAMP_BYTES
    rate_per_s: float = 0.0
    confirms_max: int = 0
    prefetch: int = 0
    persistent: bool = False
    mandatory: bool = False
    auto_ack: bool = False
    ack_every: int = 1
    queues: tuple[str, ...] = ()
    exchange: str | None = None
    exchange_type: str = "direct"
    routing_key: str | None = None
    durable: bool = False
    auto_delete: bool = False
    predeclared: bool = False
    queue_arguments: Table = field(default_factory=dict)
    duration_s: float = 0.0
    messages_per_producer: int = 0
    messages_per_consumer: int = 0
    warm_up_s: float = 0.0
    grace_s: float = 10.0
    consumer_rate_per_s: float = 0.0
    consumer_latency_us: int = 0
    seed: int = 1

    def __post_init__(self) -> None:
        if self.producers + self.consumers < 1:
            raise OperatorError("nothing to do: no producers and no consumers")
        for option, number in (
            ("--rate", self.rate_per_s),
            ("--time", self.duration_s),
            ("--warm-up", self.warm_up_s),
            ("--grace", self.grace_s),
            ("--consumer-rate", self.consumer_rate_per_s),
        ):
            # No range keeps it out: it is neither below nor above any number.
            if number != number:
                raise OperatorError(f"{option} nan is not a number")
        if not STAMP_BYTES <= self.size_bytes_min <= self.size_bytes_max:
            raise OperatorError(
                f"body sizes {self.size_bytes_min}..{self.size_bytes_max}: a body carries a time "
                f"stamp and has at least {STAMP_BYTES} bytes, and the range must not be reversed"
            )
        if not self.auto_ack and 0 < self.prefetch < self.ack_every:
            raise OperatorError(
                f"--multi-ack-every {self.ack_every} with --prefetch {self.prefetch}: the broker "
                "stops delivering before the first ack; make the prefetch at least as large"
            )
        if self.predeclared and self.consumers and not self.queues:
            raise OperatorError("--predeclared needs the names of the queues (--queue)")
        for option, names in (
            ("--queue", self.queues),
            ("--exchange", (self.exchange or "",)),
            ("--type", (self.exchange_type,)),
            ("--routing-key", (self.routing_key or "",)),
            ("--queue-argument", self.queue_arguments),
        ):
            for name in names:
                _check_name(option, name)

    def is_counting(self) -> bool:
        """Whether producers have a number of messages to publish, so that loss can be told."""
        return self.messages_per_producer > 0

    def consumer_interval_ns(self) -> int:
        """Nanoseconds from one message to the next in a consumer that pretends to work; or 0."""
        by_rate = 1e9 / self.consumer_rate_per_s if self.consumer_rate_per_s else 0.0
        return int(max(by_rate, self.consumer_latency_us * 1000))


def _check_name(option: str, name: str) -> None:
    """Raises: OperatorError for what no method of AMQP can carry as a name."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError as error:
        raise OperatorError(f"{option} {name[:40]!r} is no text in UTF-8") from error
    if size > NAME_BYTES_MAX:
        raise OperatorError(
            f"{option} '{name[:40]}…' has {size} bytes; a name in AMQP has at most {NAME_BYTES_MAX}"
        )


def queue_names(pattern: str, first: int, last: int) -> tuple[str, ...]:
    """The queues `pattern % n` for n in first..last, as PerfTest's --queue-pattern.

    Raises: OperatorError when the pattern takes no number, or the range is empty or names more
    than QUEUES_PER_VHOST.
    """
    if first > last:
        raise OperatorError(f"queue pattern from {first} to {last} names no queue")
    most = QUEUES_PER_VHOST.default
    if last - first >= most:
        raise OperatorError(
            f"queue pattern from {first} to {last} names {last - first + 1} queues; a virtual host "
            f"has at most {most}"
        )
    try:
        names = tuple(pattern % number for number in range(first, last + 1))
    except (OverflowError, TypeError, ValueError) as error:
        raise OperatorError(f"queue pattern {pattern!r} needs one number, as in perf-%d") from error
    return names


@dataclass(frozen=True, slots=True)
class LoadTopology:
    """Who publishes where and who reads from where.

    routing_keys: one per producer; consumed: one queue per consumer; copies: into how many of the
    consumed queues each producer's messages go, one number per producer.
    """

    exchange: str
    routing_keys: tuple[str, ...]
    consumed: tuple[str, ...]
    copies: tuple[int, ...]


def declare(connection: Connection, plan: LoadPlan) -> LoadTopology:
    """Make what the plan needs. The connection must outlive the run: its queues may be exclusive.

    With named queues, producers and consumers are spread over them in turn, and a routing key
    other than the queues' names goes to all of them. Without names, every consumer gets a queue of
    its own, all bound with one key, as PerfTest does: each message goes to all of them.
    Raises: ChannelClosedError with the broker's reason, for example for an unequal declaration.
    """
    channel = connection.channel()
    exchange = plan.exchange if plan.exchange is not None else ""
    if plan.predeclared:
        return _found(plan, exchange)
    if plan.exchange is None and not _needs_no_exchange(plan):
        exchange = plan.exchange_type
    if exchange and not _is_there(connection, exchange):
        channel.declare_exchange(exchange, plan.exchange_type, durable=True)
    queues = _declare_queues(channel, plan)
    keys = binding_keys(plan, queues, exchange)
    for queue, key in zip(queues, keys, strict=True):
        if exchange:
            channel.bind_queue(queue, exchange, key)
    return spread(plan, exchange, queues, keys)


def _needs_no_exchange(plan: LoadPlan) -> bool:
    """Whether the default exchange does: named queues, addressed by their names."""
    return bool(plan.queues) and plan.routing_key is None and plan.exchange_type == "direct"


def _found(plan: LoadPlan, exchange: str) -> LoadTopology:
    """Nothing is declared; a message is expected in one of the queues named, if there are any."""
    queues = plan.queues or ("",)
    keys = _in_turn(queues, plan.producers)
    if plan.routing_key is not None:
        keys = (plan.routing_key,) * plan.producers
    consumed = _in_turn(queues, plan.consumers)
    copies = 1 if plan.consumers else 0
    return LoadTopology(exchange, keys, consumed, (copies,) * plan.producers)


def _is_there(connection: Connection, exchange: str) -> bool:
    """Whether the exchange exists: one that does is used as it is, whatever its attributes."""
    channel = connection.channel()
    try:
        channel.declare_exchange(exchange, passive=True)
    except ChannelClosedError as error:
        if error.code != _NOT_FOUND:
            raise
        return False
    channel.close()
    return True


def _declare_queues(channel: Channel, plan: LoadPlan) -> tuple[str, ...]:
    durable, arguments = plan.durable, plan.queue_arguments
    if plan.queues:
        return tuple(
            channel.declare_queue(
                name, durable=durable, auto_delete=plan.auto_delete, arguments=arguments
            ).queue
            for name in plan.queues
        )
    # Consumers have connections of their own, so only a queue without any can be exclusive.
    is_alone = plan.consumers == 0
    return tuple(
        channel.declare_queue(
            durable=durable, exclusive=is_alone, auto_delete=True, arguments=arguments
        ).queue
        for _ in range(max(1, plan.consumers))
    )


def binding_keys(plan: LoadPlan, queues: tuple[str, ...], exchange: str) -> tuple[str, ...]:
    """The binding key of each queue; on the default exchange that is its name."""
    if not exchange:
        return queues
    if plan.routing_key is not None:
        return (plan.routing_key,) * len(queues)
    return queues if plan.queues else (queues[0],) * len(queues)


def spread(
    plan: LoadPlan, exchange: str, queues: tuple[str, ...], keys: tuple[str, ...]
) -> LoadTopology:
    """Producers and consumers over `queues`, bound with one of `keys` each, in turn."""
    chosen = _in_turn(keys, plan.producers)
    if plan.routing_key is not None:
        chosen = (plan.routing_key,) * plan.producers
    consumed = _in_turn(queues, plan.consumers)
    read = [key for queue, key in zip(queues, keys, strict=True) if queue in set(consumed)]
    is_everywhere = bool(exchange) and plan.exchange_type in ("fanout", "headers")
    copies = tuple(len(read) if is_everywhere else read.count(key) for key in chosen)
    return LoadTopology(exchange, chosen, consumed, copies)


def _in_turn(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """So many of `names`, from the first again after the last."""
    return tuple(islice(cycle(names), count))
