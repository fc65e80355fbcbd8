"""Memory and overload rows: who gets a queue depth, and when a run is ended for its memory."""

import pytest

from bench.brokers import BrokerFailed, Target
from bench.resources import command_cpu_s, rss_guard, with_depth


def test_only_penstock_has_a_queue_depth() -> None:
    penstock = with_depth(Target("penstock", "penstock", arguments=("--x",)), 2.0)
    assert penstock.arguments == ("--x", "--queue-depth", "2097152")
    rabbitmq = Target("rabbitmq", "rabbitmq")
    assert with_depth(rabbitmq, 2.0) == rabbitmq


def test_the_guard_ends_a_run_above_its_mark() -> None:
    watch = rss_guard(100.0)
    assert watch({"rss_mb": 100.0})
    assert not watch({"rss_mb": 100.1})


def test_every_command_is_started_and_its_processor_time_is_its_own() -> None:
    found = command_cpu_s(Target("penstock", "penstock"), 1)
    assert len(found) == 1
    # A bare interpreter takes a hundredth; a minute would be the sum of something else.
    assert 0.005 < next(iter(found.values())) < 60


def test_a_command_that_fails_is_no_figure() -> None:
    with pytest.raises(BrokerFailed, match="--help"):
        command_cpu_s(Target("penstock", "penstock", "/bin/false"), 1)
