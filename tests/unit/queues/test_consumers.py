"""A consumer's room: the smallest of what prefetch, unsent deliveries, channel and socket leave."""

import pytest

from penstock.queues.consumers import Consumer, ConsumerQueue, DeliverySink, Unsent
from penstock.queues.hold_reasons import REASON_NAMES


def consumer(prefetch: int = 0, no_ack: bool = False) -> Consumer:
    return Consumer("t", ConsumerQueue(), DeliverySink(), Unsent(200), no_ack, False, prefetch, {})


def test_the_smallest_window_counts() -> None:
    one = consumer(prefetch=50)
    assert one.room() == 50
    one.unacked = 20
    assert one.room() == 30
    one.sink.prefetch = 10
    one.sink.unacked_count = 4
    assert one.room() == 6
    one.unsent.count = 197
    assert one.room() == 3


def test_prefetch_of_a_consumer_is_for_those_that_acknowledge() -> None:
    one = consumer(prefetch=1, no_ack=True)
    one.unacked = 5
    assert one.room() == 200


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"unacked": 5}, "prefetch"),
        ({"unsent.count": 200}, "unsent"),
        ({"sink.is_output_open": False}, "socket"),
        ({"sink.is_flow_active": False}, "client_flow"),
        ({"sink.prefetch": 3, "sink.unacked_count": 3}, "channel prefetch"),
    ],
)
def test_no_room_has_a_reason(change: dict[str, int], reason: str) -> None:
    one = consumer(prefetch=5)
    for path, value in change.items():
        owner, _, name = path.rpartition(".")
        setattr(getattr(one, owner) if owner else one, name, value)
    assert one.room() == 0
    assert REASON_NAMES[one.reason] == reason


class Busy(ConsumerQueue):
    """A queue that always has another message, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.given = 0

    def consumer_changed(self, consumer: Consumer) -> None:
        self.asked += 1

    def serve(self, consumer: Consumer, most: int) -> int:
        self.asked += 1
        given = 0
        while given < most and consumer.room() > 0:
            consumer.sink.unacked_count += 1
            given += 1
        self.given += given
        consumer.sink.served = None
        if consumer.room() == 0:
            consumer.sink.wait(consumer)
        return given


def in_line(count: int, prefetch: int) -> tuple[DeliverySink, list[Busy]]:
    """Consumers of a channel whose window is full."""
    sink = DeliverySink()
    sink.prefetch = prefetch
    sink.unacked_count = prefetch
    queues = [Busy() for _ in range(count)]
    for queue in queues:
        one = Consumer("t", queue, sink, Unsent(200), False, False, 0, {})
        assert one.room() == 0
        sink.wait(one)
    return sink, queues


@pytest.mark.parametrize("batch", [1, 7, 50])
def test_an_answer_asks_as_many_consumers_as_there_is_room_for(batch: int) -> None:
    sink, queues = in_line(1000, 50)
    for _ in range(0, 2100, batch):
        sink.unacked_count -= batch
        sink.serve_waiting()
    given = sum(queue.given for queue in queues)
    assert given >= 2100 and sum(queue.asked for queue in queues) == given
    assert {queue.given for queue in queues} <= {2, 3}


def test_the_only_one_in_line_has_all_the_room() -> None:
    sink, (queue,) = in_line(1, 50)
    sink.unacked_count = 10
    sink.serve_waiting()
    assert (queue.asked, queue.given) == (1, 40)
    assert sink.waiting is not None and len(sink.waiting) == 1
