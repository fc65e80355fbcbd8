"""Sizes of messages in RabbitMQ's classes: each bound belongs to the class below it."""

from penstock.broker.vhost.message_sizes import BOUNDS, MessageSizes


def test_every_size_is_in_one_class() -> None:
    sizes = MessageSizes()
    for bound in BOUNDS:
        sizes.add(bound)
    assert sizes.counts() == [1] * len(BOUNDS) + [0]
    for bound in BOUNDS:
        sizes.add(bound + 1)
    assert sizes.counts() == [1, *[2] * (len(BOUNDS) - 1), 1]
    assert sizes.total_bytes == 2 * sum(BOUNDS) + len(BOUNDS)
