"""A consumer's room: the smallest of what prefetch, unsent deliveries, channel and socket leave."""

import pytest

from penstock.queues.consumers import (
    REASON_NAMES,
    Consumer,
    ConsumerQueue,
    DeliverySink,
    Unsent,
)


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
