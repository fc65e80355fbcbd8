"""pika: acknowledgements, returned messages, their order, recover and prefetch."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.live import Broker
from tests.conformance.through_pika import connect, counts, deliveries, publish, take, wait
from tests.patience import PATIENCE_S

Settle = Callable[[BlockingChannel], object]


def _ack(tag: int) -> Settle:
    return lambda channel: channel.basic_ack(tag)


def _up_to(tag: int) -> Settle:
    return lambda channel: channel.basic_ack(tag, multiple=True)


def _recover(channel: BlockingChannel) -> object:
    return channel.basic_recover(requeue=True)


def _commit(channel: BlockingChannel) -> object:
    return channel.tx_commit()


def _rollback(channel: BlockingChannel) -> object:
    return channel.tx_rollback()


# Five messages a..e are fetched as delivery tags 1..5; then comes the step, then what a fresh
# reader finds. Returned messages go back to their old places.
SETTLED: list[tuple[str, Settle, list[str]]] = [
    ("ack one", lambda c: c.basic_ack(2), []),
    ("ack up to", lambda c: c.basic_ack(5, multiple=True), []),
    ("ack all by zero", lambda c: c.basic_ack(0, multiple=True), []),
    ("nack one back", lambda c: c.basic_nack(3), ["again:c"]),
    ("nack up to", lambda c: c.basic_nack(3, multiple=True), ["again:a", "again:b", "again:c"]),
    ("nack up to, dropped", lambda c: c.basic_nack(3, multiple=True, requeue=False), []),
    (
        "nack all by zero",
        lambda c: c.basic_nack(0, multiple=True),
        ["again:a", "again:b", "again:c", "again:d", "again:e"],
    ),
    ("reject back", lambda c: c.basic_reject(4), ["again:d"]),
    ("reject away", lambda c: c.basic_reject(4, requeue=False), []),
    (
        "returned one by one, backwards",
        lambda c: [c.basic_reject(tag) for tag in (5, 1, 3)],
        ["again:a", "again:c", "again:e"],
    ),
    (
        "recover",
        lambda c: c.basic_recover(requeue=True),
        ["again:a", "again:b", "again:c", "again:d", "again:e"],
    ),
    (
        "ack, then recover the rest",
        lambda c: (c.basic_ack(2, multiple=True), c.basic_recover(requeue=True)),
        ["again:c", "again:d", "again:e"],
    ),
    (
        "close",
        lambda c: c.close(),
        ["again:a", "again:b", "again:c", "again:d", "again:e"],
    ),
]


@pytest.mark.parametrize(("settle", "found"), [row[1:] for row in SETTLED], ids=lambda row: None)
def test_what_comes_back_and_in_which_order(
    connection: BlockingConnection, name: str, settle: Settle, found: list[str]
) -> None:
    first, second = connection.channel(), connection.channel()
    first.queue_declare(name)
    publish(first, name, *"abcde")
    assert take(first, name, ack=False) == list("abcde")
    assert counts(second, name) == (0, 0)
    settle(first)
    if first.is_open:
        first.basic_qos()  # a reply on the same channel: the settling was handled
    assert take(second, name) == found


# Messages a..d, of which a, b and c are fetched as delivery tags 1..3 in a transaction; then come
# the steps, then what a fresh reader finds, and what another finds when the channel has ended.
IN_TRANSACTION: list[tuple[str, list[Settle], str, str]] = [
    ("acks, recover, commit", [_ack(1), _ack(2), _recover, _commit], "cd", ""),
    ("acks, recover", [_ack(1), _ack(2), _recover], "cd", "ab"),
    ("acks, recover, rollback", [_ack(1), _ack(2), _recover, _rollback], "cd", "ab"),
    ("up to, recover, rollback, recover", [_up_to(2), _recover, _rollback, _recover], "abcd", ""),
    ("up to, recover, rollback, ack, commit",
     [_up_to(2), _recover, _rollback, _ack(1), _commit], "cd", "b"),
    ("ack all, recover, commit", [_up_to(0), _recover, _commit], "d", ""),
    ("ack, recover, ack all, commit", [_ack(1), _recover, _up_to(0), _commit], "bcd", ""),
    ("nack, recover, commit", [lambda c: c.basic_nack(2, multiple=True), _recover, _commit],
     "abcd", ""),
    ("reject, recover, commit", [lambda c: c.basic_reject(2, requeue=False), _recover, _commit],
     "acd", ""),
    ("reject, recover, rollback", [lambda c: c.basic_reject(2, requeue=False), _recover, _rollback],
     "acd", "b"),
    ("ack, drop, recover, commit",
     [_ack(1), lambda c: c.basic_nack(3, True, False), _recover, _commit], "d", ""),
    ("no commit", [_ack(1), _ack(2)], "d", "abc"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "found", "at_last"), [row[1:] for row in IN_TRANSACTION], ids=lambda row: None
)
def test_recover_in_a_transaction(
    connection: BlockingConnection, name: str, steps: list[Settle], found: str, at_last: str
) -> None:
    first, second = connection.channel(), connection.channel()
    first.queue_declare(name)
    publish(first, name, *"abcd")
    first.tx_select()
    for _ in range(3):
        first.basic_get(name)
    for step in steps:
        step(first)
    first.basic_qos()
    assert [one[-1] for one in take(second, name)] == list(found)
    first.close()
    assert [one[-1] for one in take(second, name)] == list(at_last)


def test_returned_messages_go_before_newer_ones(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *"abc")
    got, _, _ = channel.basic_get(queue)
    publish(channel, queue, "d")
    channel.basic_nack(got.delivery_tag)
    assert take(channel, queue) == ["again:a", "b", "c", "d"]


def test_a_lost_connection_returns_everything(
    broker: Broker, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, *"abc")
    with connect(broker) as lost:
        assert deliveries(lost.channel(), queue, 3) == ["a", "b", "c"]
    assert take(channel, queue) == ["again:a", "again:b", "again:c"]


def test_get_counts_what_is_left(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *"abc")
    assert [channel.basic_get(queue)[0].message_count for _ in range(3)] == [2, 1, 0]
    assert channel.basic_get(queue) == (None, None, None)


def test_get_does_not_count_what_is_dead_in_front(channel: BlockingChannel, queue: str) -> None:
    channel.confirm_delivery()
    publish(channel, queue, "a")
    publish(channel, queue, "dead", expiration="0")
    publish(channel, queue, "b")
    got, _, body = channel.basic_get(queue, auto_ack=True)
    assert got is not None and (body, got.message_count) == (b"a", 1)
    got, _, body = channel.basic_get(queue, auto_ack=True)
    assert got is not None and (body, got.message_count) == (b"b", 0)


def test_prefetch_of_each_consumer(channel: BlockingChannel, queue: str) -> None:
    """Without `global`, the number is for each consumer started afterwards."""
    publish(channel, queue, *map(str, range(10)))
    channel.basic_qos(prefetch_count=2)
    assert deliveries(channel, queue, 2) == ["0", "1"]
    channel.basic_qos(prefetch_count=3)
    assert deliveries(channel, queue, 3) == ["2", "3", "4"]
    assert counts(channel, queue) == (5, 2)


def test_prefetch_of_the_whole_channel(channel: BlockingChannel, name: str) -> None:
    """With `global`, all consumers of the channel share the number, also those before it."""
    channel.queue_declare(name)
    channel.basic_qos(prefetch_count=3, global_qos=True)
    publish(channel, name, *map(str, range(10)))
    seen = deliveries(channel, name, 3)
    assert deliveries(channel, name, 0) == []
    channel.connection.process_data_events(time_limit=0.2)
    assert (seen, counts(channel, name)) == (["0", "1", "2"], (7, 2))
    channel.basic_ack(2, multiple=True)
    # The queue is asked in its own turn: the number may be that from before it saw the ack.
    wait(channel, lambda: counts(channel, name) == (5, 2))


def test_prefetch_of_the_whole_channel_goes_round_its_queues(
    channel: BlockingChannel, name: str
) -> None:
    seen: Counter[str] = Counter()

    def answer(_c: BlockingChannel, method: Any, _p: object, _b: bytes) -> None:
        seen[method.consumer_tag] += 1
        channel.basic_ack(method.delivery_tag)

    queues = [name + end for end in "abc"]
    for queue in queues:
        channel.queue_declare(queue)
        publish(channel, queue, *("x" for _ in range(100)))
    publish(channel, queues[0], *("x" for _ in range(100)))
    channel.basic_qos(prefetch_count=10, global_qos=True)
    for queue in queues:
        channel.basic_consume(queue, answer, consumer_tag=queue)
    wait(channel, lambda: seen.total() >= 150)
    assert min(seen[queue] for queue in queues) >= 20, "each has about a third"


def test_a_consumer_that_waits_is_given_it_before_anybody_looks(
    connection: BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    seen: list[bytes] = []
    channel.basic_consume(queue, lambda _c, _m, _p, body: seen.append(body), auto_ack=True)
    other = connection.channel()
    other.confirm_delivery()
    for _ in range(20):
        publish(channel, queue, "same channel")
        assert channel.basic_get(queue) == (None, None, None)
        publish(other, queue, "confirmed")
        assert counts(channel, queue) == (0, 1)
        publish(other, queue, "confirmed")
        assert channel.queue_purge(queue).method.message_count == 0
    wait(channel, lambda: len(seen) == 60)


def test_prefetch_does_not_limit_get(channel: BlockingChannel, queue: str) -> None:
    channel.basic_qos(prefetch_count=1)
    publish(channel, queue, *"abc")
    assert take(channel, queue, ack=False) == ["a", "b", "c"]


def test_an_ack_brings_the_next(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, *"abc")
    channel.basic_qos(prefetch_count=1)
    seen = []
    for method, _, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
        seen.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(seen) == 3:
            break
    assert seen == ["a", "b", "c"]
    assert channel.cancel() == 0


def test_messages_go_round_the_consumers(channel: BlockingChannel, queue: str) -> None:
    seen: dict[str, list[str]] = {"x": [], "y": [], "z": []}

    def keep(method: object, body: bytes) -> None:
        seen[method.consumer_tag].append(body.decode())  # type: ignore[attr-defined]  # pika

    for tag in seen:
        channel.basic_consume(queue, lambda _c, m, _p, b: keep(m, b), consumer_tag=tag)
    publish(channel, queue, *map(str, range(9)))
    while sum(map(len, seen.values())) < 9:
        channel.connection.process_data_events(time_limit=0.1)
    assert sorted(seen.values()) == [["0", "3", "6"], ["1", "4", "7"], ["2", "5", "8"]]


def test_the_higher_consumer_priority_is_served_first(channel: BlockingChannel, queue: str) -> None:
    seen: list[str] = []
    channel.basic_qos(prefetch_count=2)
    for tag, priority in (("low", 0), ("high", 5)):
        channel.basic_consume(
            queue,
            lambda _c, method, _p, _b: seen.append(method.consumer_tag),
            consumer_tag=tag,
            arguments={"x-priority": priority},
        )
    publish(channel, queue, *"abc")
    while len(seen) < 3:
        channel.connection.process_data_events(time_limit=0.1)
    assert seen == ["high", "high", "low"]
