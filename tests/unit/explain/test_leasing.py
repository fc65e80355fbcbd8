"""A queue whose messages are leased: the query is named, with what it holds, as the cause."""

from penstock.explain.advice import advise
from penstock.explain.consumer_causes import consumer_detail, lease_detail
from penstock.explain.explanation import Cause
from tests.unit.explain.scene import S, actor, scene

ALL = actor(
    "consumers:/orders",
    numbers={"consumers": 1, "prefetch_full_share": 1.0, "unacked": 20, "prefetch": 20},
    rates={"acked": 10.0},
    labels={"queue": "queue:/orders"},
)
LEASE = actor(
    "consumer:etl@conn:a",
    numbers={"unacked": 20, "lease_bytes": 43_200, "lease_ns": 4.0 * S},
    labels={"queue": "queue:/orders", "lease": "spark query etl"},
)
OTHER = actor("consumer:x@conn:b", labels={"queue": "queue:/bills", "lease": "spark query bills"})
SAID = "spark query etl holds 20 messages, 43.2 kB, for 4.0 s"


def test_whoever_leases_is_named_for_the_queue_and_its_consumers() -> None:
    windows = scene(ALL, LEASE, OTHER)
    queue = actor("queue:/orders")
    assert lease_detail(queue, windows) == SAID
    assert lease_detail(LEASE, windows) == SAID
    assert consumer_detail(ALL, windows) == f"{SAID}; 10/s acked"


def test_a_queue_without_leases_has_nothing_of_it() -> None:
    assert lease_detail(ALL, scene(ALL, OTHER)) == ""
    assert "spark" not in consumer_detail(ALL, scene(ALL, OTHER))


def test_the_advice_is_about_the_query() -> None:
    cause = Cause("consumers:/orders", "consumer", "", S, 1.0, ("queue:/orders",))
    found = advise(cause, scene(ALL, LEASE))
    assert "maxOffsetsPerTrigger" in found[0]
    assert "spark query etl" in found[0]
