"""Memory and overload rows: who gets a queue depth, and when a run is ended for its memory."""

from bench.brokers import Target
from bench.resources import rss_guard, with_depth


def test_only_penstock_has_a_queue_depth() -> None:
    penstock = with_depth(Target("penstock", "penstock", arguments=("--x",)), 2.0)
    assert penstock.arguments == ("--x", "--queue-depth", "2097152")
    rabbitmq = Target("rabbitmq", "rabbitmq")
    assert with_depth(rabbitmq, 2.0) == rabbitmq


def test_the_guard_ends_a_run_above_its_mark() -> None:
    watch = rss_guard(100.0)
    assert watch({"rss_mb": 100.0})
    assert not watch({"rss_mb": 100.1})
