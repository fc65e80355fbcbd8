"""What can hold a publisher, as cases that can be injected into a running broker and lifted again.

Each kind makes its own queues and clients under names of its own, and a victim that runs freely
until `inject`. roots: what `why` may name; advice: what one of its suggestions must say.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

from bench.outside.broker import LiveBroker
from bench.outside.truth import Truth, Victim
from bench.outside.wire import (
    CONFIRM,
    DELIVER,
    Connection,
    Consumer,
    Failed,
    Loop,
    Publisher,
    method,
    publish_bytes,
    short,
    table,
)

Value = str | int | bool
FULL: Final[dict[str, Value]] = {"x-max-length": 300, "x-overflow": "backpressure"}
USERS: Final = 8
SYNC_S: Final = 1.0
DEPTH_BYTES: Final = 2_000_000


def to(target: str, exchange: str = "", **more: Value) -> dict[str, Value]:
    """Arguments of a queue whose dead letters go to `target`."""
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in more.items()}
    return {
        "x-dead-letter-exchange": exchange,
        "x-dead-letter-routing-key": target,
        **arguments,
    }


def slow_down(consumer: Consumer, rate: float) -> None:
    """So many a second from now on; 0: none at all."""
    consumer.is_stopped = rate == 0
    if rate > 0:
        consumer.rate = rate
        consumer.began = consumer.loop.now() - consumer.acked / rate


def speed_up(consumer: Consumer) -> None:
    consumer.is_stopped = False
    consumer.rate = 0.0


@dataclass
class Case:
    """victim: who is asked about; inject, lift: begin and end what holds it; is_global: it may hold
    others as well; is_command: what is advised is a command, and `lift` is not needed."""

    kind: str
    victim: Victim
    roots: tuple[str, ...]
    advice: str
    inject: Callable[[], object]
    lift: Callable[[], object]
    is_global: bool = False
    is_command: bool = False


@dataclass
class Yard:
    """Where the cases of one seed are made. prefix: of every name; number: of the case; pace: of a
    victim, messages a second."""

    broker: LiveBroker
    loop: Loop
    truth: Truth
    admin: Connection
    rng: Random
    prefix: str
    number: int
    pace: float
    queues: list[tuple[str, str]] = field(default_factory=list)

    def name(self, part: str) -> str:
        return f"{self.prefix}-{part}"

    def queue(self, part: str, durable: bool = False, **arguments: Value) -> str:
        """Declare one with x-arguments, _ for -."""
        return self.declare(part, {f"x-{k.replace('_', '-')}": v for k, v in arguments.items()},
                            durable)  # fmt: skip

    def declare(self, part: str, arguments: dict[str, Value], durable: bool = False) -> str:
        name = self.name(part)
        self.admin.declare(name, arguments=arguments, durable=durable)
        self.queues.append(("/", name))
        return name

    def exchange(self, part: str, kind: str, *bound: str) -> str:
        """Declare an exchange and bind queues to it."""
        name = self.name(part)
        head = struct.pack(">H", 0) + short(name) + short(kind) + b"\x00"
        self.admin.call(1, 40, 10, head + table({}))
        for queue in bound:
            self.bind(queue, name)
        return name

    def bind(self, queue: str, exchange: str) -> None:
        head = struct.pack(">H", 0) + short(queue) + short(exchange) + short("") + b"\x00"
        self.admin.call(1, 50, 20, head + table({}))

    def victim(self, queue: str, *, pace: float = 0.0, **more: object) -> Victim:
        name = self.name("victim")
        pace = pace or self.pace
        made = Victim(self.loop, self.broker.port, name, queue, pace=pace, **more)  # type: ignore[arg-type]
        self.truth.watch(made)
        return made

    def consumer(self, queue: str, prefetch: int = 200, **more: object) -> Consumer:
        name = self.name(f"consumer{len(self.loop.connections)}")
        return Consumer(self.loop, self.broker.port, queue, prefetch=prefetch, name=name, **more)  # type: ignore[arg-type]

    def set(self, key: str, value: str) -> None:
        """penstock flow set KEY=VALUE. Raises: Failed."""
        done = self.broker.command("flow", "set", f"{key}={value}")
        if done.returncode != 0:
            raise Failed(done.stdout + done.stderr)


# -- consumers ---------------------------------------------------------------------------------


def _of_consumer(
    yard: Yard,
    kind: str,
    queue: str,
    inject: Callable[[Consumer], object],
    lift: Callable[[Consumer], object],
    advice: str,
    *,
    consumer: Consumer | None = None,
    reader: str = "",
    victim: Victim | None = None,
) -> Case:
    """The consumer of `reader`, which is the victim's queue unless it is named, is the culprit."""
    culprit = consumer or yard.consumer(reader or queue)
    return Case(
        kind,
        victim or yard.victim(queue),
        (f"consumers:/{reader or queue}",),
        advice,
        lambda: inject(culprit),
        lambda: lift(culprit),
    )


def _gone(consumer: Consumer) -> None:
    consumer.connection.drop()


def _silent(consumer: Consumer) -> None:
    consumer.is_stopped = True


def slow(yard: Yard) -> Case:
    rate = yard.rng.choice([20.0, 50.0, 100.0])
    queue = yard.declare("q", FULL)
    return _of_consumer(yard, "slow", queue, lambda one: slow_down(one, rate), speed_up,
                        "add consumers on queue")  # fmt: skip


def silent(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    return _of_consumer(yard, "silent", queue, _silent, speed_up, "add consumers on queue")


def gone(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    return _of_consumer(yard, "gone", queue, _gone, lambda _: yard.consumer(queue),
                        "start a consumer on queue")  # fmt: skip


def cancelled(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)

    def cancel(consumer: Consumer) -> None:
        reply = consumer.tag
        consumer.connection.call(1, 60, 30, short(reply) + b"\x00")

    return _of_consumer(yard, "cancelled", queue, cancel, lambda _: yard.consumer(queue),
                        "start a consumer on queue")  # fmt: skip


def unread(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    victim = yard.victim(queue, pace=200.0, body_bytes=50_000)
    return _of_consumer(yard, "unread", queue, lambda one: one.connection.stop_reading(True),
                        lambda one: one.connection.stop_reading(False), "reading thread",
                        consumer=yard.consumer(queue, no_ack=True), victim=victim)  # fmt: skip


def paused_by_client(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)

    def flow(consumer: Consumer, active: int) -> None:
        consumer.connection.send(method(1, 20, 20, bytes((active,))))

    return _of_consumer(yard, "paused_by_client", queue, lambda one: flow(one, 0),
                        lambda one: flow(one, 1), "channel.flow")  # fmt: skip


def full_bytes(yard: Yard) -> Case:
    queue = yard.queue("q", max_length_bytes=100_000, overflow="backpressure")
    return _of_consumer(yard, "full_bytes", queue, _gone, lambda _: yard.consumer(queue),
                        "start a consumer")  # fmt: skip


def priorities(yard: Yard) -> Case:
    queue = yard.declare("q", {**FULL, "x-max-priority": 5})
    return _of_consumer(yard, "priorities", queue, _silent, speed_up, "add consumers")


def two_silent(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    other = yard.consumer(queue)

    def both(consumer: Consumer, is_stopped: bool) -> None:
        consumer.is_stopped = other.is_stopped = is_stopped

    return _of_consumer(yard, "two_silent", queue, lambda one: both(one, True),
                        lambda one: both(one, False), "add consumers")  # fmt: skip


def single_active(yard: Yard) -> Case:
    queue = yard.declare("q", {**FULL, "x-single-active-consumer": True})
    active = yard.consumer(queue)
    yard.consumer(queue)
    return _of_consumer(yard, "single_active", queue, _silent, _gone, "single active|ack sooner",
                        consumer=active)  # fmt: skip


def one_by_one(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    culprit = yard.consumer(queue, prefetch=1)
    victim = yard.victim(queue, pace=0.3 * yard.pace)
    return _of_consumer(yard, "one_by_one", queue, lambda one: slow_down(one, 25.0), speed_up,
                        "add consumers", consumer=culprit, victim=victim)  # fmt: skip


def requeued(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    culprit = yard.consumer(queue, prefetch=20)

    def requeue(consumer: Consumer) -> None:
        consumer.requeues = True

    def settle(consumer: Consumer) -> None:
        consumer.requeues = False

    return _of_consumer(yard, "requeued", queue, requeue, settle, "requeue", consumer=culprit)


def crowd(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    for index in range(5):
        Publisher(yard.loop, yard.broker.port, queue, body=bytes(200), window=50, rate=100.0,
                  name=yard.name(f"other{index}"))  # fmt: skip
    return _of_consumer(yard, "crowd", queue, lambda one: slow_down(one, 40.0), speed_up,
                        "add consumers")  # fmt: skip


def large(yard: Yard) -> Case:
    queue = yard.queue("q", max_length=5, overflow="backpressure")
    victim = yard.victim(queue, pace=30.0, body_bytes=300_000)
    return _of_consumer(yard, "large", queue, lambda one: slow_down(one, 1.0), speed_up,
                        "add consumers", victim=victim,
                        consumer=yard.consumer(queue, prefetch=3))  # fmt: skip


def paused_by_operator(yard: Yard) -> Case:
    queue = yard.declare("q", FULL)
    yard.consumer(queue)
    return Case(
        "paused_by_operator", yard.victim(queue), (f"consumers:/{queue}",),
        "penstock queues resume",
        lambda: yard.broker.command("queues", "pause", queue),
        lambda: yard.broker.command("queues", "resume", queue), is_command=True,
    )  # fmt: skip


# -- routes ------------------------------------------------------------------------------------


def fanout(yard: Yard) -> Case:
    fast, bad = yard.queue("fast"), yard.declare("bad", FULL)
    yard.consumer(fast)
    exchange = yard.exchange("x", "fanout", fast, bad)
    return _of_consumer(yard, "fanout", bad, _silent, speed_up, "add consumers",
                        victim=yard.victim("", exchange=exchange))  # fmt: skip


def through_exchanges(yard: Yard) -> Case:
    bad = yard.declare("bad", FULL)
    first, second = yard.exchange("x1", "fanout"), yard.exchange("x2", "fanout", bad)
    head = struct.pack(">H", 0) + short(second) + short(first) + short("") + b"\x00"
    yard.admin.call(1, 40, 30, head + table({}))
    return _of_consumer(yard, "through_exchanges", bad, _gone, lambda _: yard.consumer(bad),
                        "start a consumer", victim=yard.victim("", exchange=first))  # fmt: skip


class Forwarder:
    """Takes messages of one queue, publishes each to another over the same channel, and acks it
    when that is confirmed."""

    def __init__(self, yard: Yard, source: str, target: str) -> None:
        self.connection = Connection(yard.loop, yard.broker.port, name=yard.name("forwarder"))
        self.connection.channel(1, prefetch=50, confirms=True)
        self.one = publish_bytes(1, "", target, bytes(200))
        self.connection.handlers[1, *DELIVER] = lambda _: None
        self.connection.handlers[1, *CONFIRM] = self._confirmed
        self.connection.body_done[1] = lambda: self.connection.send(self.one)
        head = struct.pack(">H", 0) + short(source) + short("") + b"\x00"
        self.connection.call(1, 60, 20, head + table({}))

    def _confirmed(self, arguments: bytes) -> None:
        # Both count from 1, and each delivery is one publish.
        self.connection.send(method(1, 60, 80, arguments))


def forwarded(yard: Yard) -> Case:
    first, second = yard.declare("first", FULL), yard.declare("second", FULL)
    Forwarder(yard, first, second)
    return _of_consumer(yard, "forwarded", first, _gone, lambda _: yard.consumer(second),
                        "start a consumer", reader=second)  # fmt: skip


def forwarded_to_a_limit(yard: Yard) -> Case:
    first, second = yard.declare("first", FULL), yard.queue("second")
    Forwarder(yard, first, second)
    yard.consumer(second)
    key = f"rate.queue.messages:/{second}"
    return Case("forwarded_to_a_limit", yard.victim(first), (f"rate:queue:/{second}",),
                f"penstock flow set {re.escape(key)}=", lambda: yard.set(key, "100/s"),
                lambda: yard.set(key, "off"), is_command=True)  # fmt: skip


def two_limits(yard: Yard) -> Case:
    """The limit of the queue lets through more than its consumer takes."""
    queue = yard.queue("q", max_length=20, overflow="backpressure")
    culprit = yard.consumer(queue, prefetch=20)

    def inject(consumer: Consumer) -> None:
        yard.set(f"rate.queue.messages:/{queue}", "150/s")
        slow_down(consumer, 30.0)

    def lift(consumer: Consumer) -> None:
        yard.set(f"rate.queue.messages:/{queue}", "off")
        speed_up(consumer)

    return _of_consumer(yard, "two_limits", queue, inject, lift, "add consumers on queue",
                        consumer=culprit)  # fmt: skip


# -- dead letters ------------------------------------------------------------------------------


def _expiring(yard: Yard, target: str, part: str = "q") -> str:
    return yard.declare(part, to(target, message_ttl=50, max_length=600, overflow="backpressure"))


def expired(yard: Yard) -> Case:
    target = yard.declare("target", FULL)
    queue = _expiring(yard, target)
    return _of_consumer(yard, "expired", queue, _gone, lambda _: yard.consumer(target),
                        "start a consumer", reader=target)  # fmt: skip


def expired_twice(yard: Yard) -> Case:
    target = yard.declare("target", FULL)
    queue = _expiring(yard, _expiring(yard, target, "between"))
    return _of_consumer(yard, "expired_twice", queue, _silent, speed_up, "add consumers",
                        reader=target)  # fmt: skip


def _rejected(yard: Yard, kind: str, target: str, queue: str) -> Case:
    yard.consumer(queue, rejects=True)
    victim = yard.victim(queue, body_bytes=2000)
    return _of_consumer(yard, kind, queue, _gone, lambda _: yard.consumer(target),
                        "start a consumer", reader=target, victim=victim)  # fmt: skip


def rejected(yard: Yard) -> Case:
    target = yard.declare("target", FULL)
    return _rejected(yard, "rejected", target, yard.declare("q", to(target)))


def refused(yard: Yard) -> Case:
    target = yard.queue("target", max_length=300, overflow="reject-publish")
    rules = to(target, dead_letter_strategy="at-least-once", overflow="reject-publish")
    case = _rejected(yard, "refused", target, yard.declare("q", rules))
    case.roots = (*case.roots, f"queue:/{target}")
    return case


def nowhere(yard: Yard) -> Case:
    target = yard.queue("target")
    exchange = yard.exchange("dlx", "fanout", target)
    rules = to("", exchange, dead_letter_strategy="at-least-once", overflow="reject-publish")
    queue = yard.declare("q", rules)
    yard.consumer(target)
    yard.consumer(queue, rejects=True)

    def lift() -> None:
        yard.exchange("dlx", "fanout", target)

    head = struct.pack(">H", 0) + short(exchange) + b"\x00"
    return Case("nowhere", yard.victim(queue, body_bytes=2000), (f"dead:/{queue}",),
                "declare and bind", lambda: yard.admin.call(1, 40, 20, head), lift)  # fmt: skip


# -- limits, disk, memory ----------------------------------------------------------------------


def _of_rate(
    yard: Yard,
    kind: str,
    key: str,
    value: str,
    root: str,
    *,
    user: str = "guest",
    vhost: str = "/",
) -> Case:
    if vhost == "/":
        queue = yard.queue("q")
        yard.consumer(queue)
    else:
        queue = yard.name("q")
        owner = Connection(yard.loop, yard.broker.port, vhost=vhost)
        owner.channel()
        owner.declare(queue)
        Consumer(yard.loop, yard.broker.port, queue, connection=owner, channel=2, prefetch=200)
        yard.queues.append((vhost, queue))
    victim = yard.victim(queue, user=user, vhost=vhost)
    root = root.replace("QUEUE", f"/{queue}").replace("VICTIM", yard.name("victim"))
    key = key.replace("QUEUE", f"/{queue}")
    return Case(kind, victim, (root,), f"penstock flow set {re.escape(key)}=",
                lambda: yard.set(key, value), lambda: yard.set(key, "off"),
                is_command=True)  # fmt: skip


def rate_queue(yard: Yard) -> Case:
    return _of_rate(yard, "rate_queue", "rate.queue.messages:QUEUE", "200/s", "rate:queue:QUEUE")


def rate_user(yard: Yard) -> Case:
    user = f"u{yard.number % USERS}"
    return _of_rate(yard, "rate_user", f"rate.user.messages:{user}", "150/s", f"rate:user:{user}",
                    user=user)  # fmt: skip


def rate_user_bytes(yard: Yard) -> Case:
    user = f"u{yard.number % USERS}"
    return _of_rate(yard, "rate_user_bytes", f"rate.user.bytes:{user}", "50000/s",
                    f"rate:user:{user}", user=user)  # fmt: skip


def rate_vhost(yard: Yard) -> Case:
    vhost = f"v{yard.number % USERS}"
    return _of_rate(yard, "rate_vhost", f"rate.vhost.messages:{vhost}", "150/s",
                    f"rate:vhost:{vhost}", vhost=vhost)  # fmt: skip


def rate_connection(yard: Yard) -> Case:
    case = _of_rate(yard, "rate_connection", "rate.connection.messages", "200/s",
                    "rate:conn:VICTIM")  # fmt: skip
    case.is_global = True
    return case


def _of_disk(yard: Yard, kind: str, queue: str, root: str) -> Case:
    yard.consumer(queue)
    victim = yard.victim(queue, pace=250.0, body_bytes=50_000, is_persistent=True)
    yard.truth.by_reading(victim)
    return Case(kind, victim, (root,), "faster disk", lambda: yard.broker.slow_disk(SYNC_S),
                lambda: yard.broker.slow_disk(0.0), is_global=True)  # fmt: skip


def slow_disk(yard: Yard) -> Case:
    return _of_disk(yard, "slow_disk", yard.queue("q", durable=True), "store:/")


def slow_stream(yard: Yard) -> Case:
    queue = yard.declare("q", {"x-queue-type": "stream"}, durable=True)
    return _of_disk(yard, "slow_stream", queue, "store:/:streams")


def _of_alarm(
    yard: Yard, kind: str, key: str, low: str, normal: str, root: str, advice: str
) -> Case:
    queue = yard.queue("q")
    yard.consumer(queue)
    return Case(kind, yard.victim(queue), (root,), advice, lambda: yard.set(key, low),
                lambda: yard.set(key, normal), is_global=True)  # fmt: skip


def memory_alarm(yard: Yard) -> Case:
    case = _of_alarm(yard, "memory_alarm", "memory.high", "20MB", "60%", "alarm:memory",
                     "penstock flow set memory.high=")  # fmt: skip
    case.is_command = True
    return case


def disk_alarm(yard: Yard) -> Case:
    return _of_alarm(yard, "disk_alarm", "disk.free_min", "9000GB", "50MB", "alarm:disk",
                     "free space on the broker's disk")  # fmt: skip


KINDS: Final[dict[str, Callable[[Yard], Case]]] = {
    one.__name__: one
    for one in (
        slow, silent, gone, cancelled, unread, paused_by_client, full_bytes, priorities,
        two_silent, single_active, one_by_one, requeued, crowd, large, paused_by_operator, fanout,
        through_exchanges, forwarded, forwarded_to_a_limit, two_limits, expired, expired_twice,
        rejected, refused, nowhere,
        rate_queue, rate_user, rate_user_bytes, rate_vhost, rate_connection, slow_disk, slow_stream,
        memory_alarm, disk_alarm,
    )
}  # fmt: skip
GLOBAL: Final = frozenset(
    {"rate_connection", "slow_disk", "slow_stream", "memory_alarm", "disk_alarm"}
)
"""Of two of these only one is injected at a time: each would hold the other's victim."""
