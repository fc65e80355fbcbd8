"""Options that cannot go together are refused by name; queues and keys are spread in turn."""

import pytest

from penstock.base.errors import OperatorError
from penstock.perf.plan import LoadPlan, LoadTopology, binding_keys, queue_names, spread


def test_acks_that_come_too_late_for_the_prefetch_are_refused() -> None:
    with pytest.raises(OperatorError, match="--multi-ack-every 50 with --prefetch 10"):
        LoadPlan(prefetch=10, ack_every=50)
    LoadPlan(prefetch=10, ack_every=50, auto_ack=True)


@pytest.mark.parametrize(("low", "high"), [(11, 20), (30, 20)])
def test_sizes_hold_a_stamp_and_are_not_reversed(low: int, high: int) -> None:
    with pytest.raises(OperatorError, match="at least 12 bytes"):
        LoadPlan(size_bytes_min=low, size_bytes_max=high)


def test_predeclared_consumers_need_queues() -> None:
    with pytest.raises(OperatorError, match="--queue"):
        LoadPlan(predeclared=True)
    with pytest.raises(OperatorError, match="nothing to do"):
        LoadPlan(producers=0, consumers=0)


def test_the_slower_of_rate_and_latency_paces_a_consumer() -> None:
    assert LoadPlan().consumer_interval_ns() == 0
    assert LoadPlan(consumer_rate_per_s=100).consumer_interval_ns() == 10_000_000
    both = LoadPlan(consumer_rate_per_s=100, consumer_latency_us=20_000)
    assert both.consumer_interval_ns() == 20_000_000


def test_a_pattern_names_queues() -> None:
    assert queue_names("q-%03d", 9, 11) == ("q-009", "q-010", "q-011")
    for pattern, first, last in (("q", 1, 2), ("%d-%d", 1, 2), ("q-%d", 2, 1)):
        with pytest.raises(OperatorError):
            queue_names(pattern, first, last)


def laid_out(plan: LoadPlan, exchange: str, queues: tuple[str, ...]) -> LoadTopology:
    return spread(plan, exchange, queues, binding_keys(plan, queues, exchange))


def test_named_queues_are_shared_out_in_turn() -> None:
    plan = LoadPlan(producers=3, consumers=2, queues=("a", "b"))
    assert laid_out(plan, "", ("a", "b")) == LoadTopology(
        "", ("a", "b", "a"), ("a", "b"), (1, 1, 1)
    )


def test_copies_count_only_queues_somebody_reads() -> None:
    plan = LoadPlan(producers=2, consumers=1, queues=("a", "b"))
    assert laid_out(plan, "", ("a", "b")).copies == (1, 0)


def test_unnamed_queues_all_get_every_message() -> None:
    plan = LoadPlan(producers=2, consumers=3)
    found = laid_out(plan, "direct", ("g1", "g2", "g3"))
    assert found == LoadTopology("direct", ("g1", "g1"), ("g1", "g2", "g3"), (3, 3))


def test_a_fanout_ignores_keys() -> None:
    plan = LoadPlan(consumers=2, queues=("a", "b"), exchange="x", exchange_type="fanout")
    assert laid_out(plan, "x", ("a", "b")).copies == (2,)
