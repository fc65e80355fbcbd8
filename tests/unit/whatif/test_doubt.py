"""Tests of what a forecast is sure of: what a record does not show is said, and not foretold."""

from dataclasses import replace
from functools import cache

import pytest

from penstock.base.config import Config
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.broker import Broker
from penstock.lab.run import simulate
from penstock.lab.workload import (
    KIB,
    ConsumerSpec,
    PublisherSpec,
    QueueSpec,
    Target,
    Workload,
)
from penstock.telemetry.flight import FlightHistory
from penstock.whatif.change import Setup, changed, window_of
from penstock.whatif.doubt import Doubts, doubts_of
from penstock.whatif.judge import (
    FALLS,
    NO_DOUBTS,
    RISES,
    SAME,
    UNSURE,
    Prediction,
    checks,
    predictions,
    trend_of,
)
from penstock.whatif.model import Model, ModelledRun, model_of, run_model
from penstock.whatif.observe import Flow, Observed, QueueSeen, observe, prefetch_of

CONFIG = Config(
    profile="penstock",
    credit_channel_queue="40/20",
    credit_connection_channel="40/20",
    parked_bytes=1,
)


def load(publishers: PublisherSpec, consumers: ConsumerSpec) -> Workload:
    return Workload(
        "truth", "one queue", (QueueSpec("work"),), (publishers,), (consumers,),
        seconds=4.0, warm_up_s=1.0, depth_bytes=64 * KIB,
    )  # fmt: skip


def publisher(per_s: float, confirms_max: int, *, is_paced: bool) -> PublisherSpec:
    return PublisherSpec(
        "a", (Target("", "work"),), per_s, 2, 512, 512, confirms_max, is_paced=is_paced
    )


WINDOWED = load(
    publisher(4000, 15, is_paced=False), ConsumerSpec("work", rate_per_s=300, prefetch=20)
)
FREE = load(publisher(100, 100, is_paced=True), ConsumerSpec("work", prefetch=20))
BUSY = load(publisher(100, 100, is_paced=True), ConsumerSpec("work", rate_per_s=250, prefetch=20))
HELD = load(publisher(4000, 500, is_paced=False), ConsumerSpec("work", rate_per_s=300, prefetch=20))


class Told:
    """A load that was recorded, its model, and what follows for changes."""

    def __init__(self, workload: Workload) -> None:
        history = FlightHistory()

        def watch(broker: Broker, now_ns: int) -> None:
            if 2_000_000_000 < now_ns < 5_000_000_000:
                history.push(broker.clock.monotonic_ns(), actor_snapshots(broker))

        config = replace(CONFIG, queue_depth_bytes=workload.depth_bytes)
        simulate(workload, "penstock", 5, None, config=config, watch=watch)
        self.seen = observe(history, 2.5)
        prefetches = {one.name: prefetch_of(history, one.name, 2.5) for one in self.seen.queues}
        self.model: Model = model_of(self.seen, prefetches, window_of(CONFIG))
        self.before = run_model(self.model, CONFIG)

    def foretold(self, *changes: str) -> tuple[dict[str, Prediction], Doubts]:
        setup = Setup(CONFIG, self.model.workload)
        for change in changes:
            setup = changed(setup, change)
        after = run_model(replace(self.model, workload=setup.workload), setup.config)
        values = dict(change.split("=") for change in changes)
        doubts = doubts_of(self.seen, self.model, setup.workload, values, self.before, after)
        found = checks(self.seen, self.before)
        made = predictions(self.seen, self.before, after, found, doubts)
        return {one.measure: one for one in made}, doubts


@cache
def told(name: str) -> Told:
    return Told({"windowed": WINDOWED, "free": FREE, "busy": BUSY, "held": HELD}[name])


def test_clients_that_wait_for_confirms_publish_as_fast_as_these_come() -> None:
    assert [flow.window() for flow in told("windowed").seen.flows] == [15, 15]
    made, doubts = told("windowed").foretold("consumers=2")
    assert made["out"].expected == pytest.approx(600, rel=0.05)
    assert made["in"].expected == pytest.approx(made["out"].expected or 0, rel=0.02)
    assert doubts.sentences() == [] and all(one.is_sure for one in made.values())
    # Twice as many confirms a second of as many that are unconfirmed.
    assert made["confirm p99, ms"].trend == FALLS
    half = told("windowed").before.result.confirm.p50_ms / 2
    assert made["confirm p50, ms"].after == pytest.approx(half, rel=0.3)
    assert told("windowed").foretold("consumers=0.5")[0]["confirm p99, ms"].trend == RISES


def test_how_long_a_confirm_takes_is_checked_by_what_is_unconfirmed() -> None:
    found = {one.measure: one for one in checks(told("windowed").seen, told("windowed").before)}
    mean = found["confirm mean, ms"]
    assert mean.observed == pytest.approx(30 / 300 * 1000, rel=0.1)
    assert abs(mean.error) < 0.1


def test_who_was_held_may_have_more_unconfirmed_than_anybody_saw() -> None:
    assert all(flow.is_held() and flow.window() == 0 for flow in told("held").seen.flows)
    made, doubts = told("held").foretold(
        "credit.channel_queue=10/5", "credit.connection_channel=10/5"
    )
    assert "2 of 2 flows were held" in doubts.latency
    for measure in ("confirm p50, ms", "confirm p99, ms", "delivery p99, ms"):
        assert not made[measure].is_sure and made[measure].trend == UNSURE
    # Its rates follow from the consumer, whatever the programs have unconfirmed.
    assert made["out"].is_sure and made["in"].is_sure
    made, doubts = told("held").foretold("consumers=2")
    assert made["confirm p99, ms"].trend == FALLS and not made["confirm p99, ms"].is_sure


def test_wider_windows_may_be_wider_than_those_of_the_programs() -> None:
    made, doubts = told("held").foretold(
        "credit.channel_queue=200/100", "credit.connection_channel=200/100"
    )
    assert "to be held, its publishers would need" in doubts.held_times["queue:/work"]
    assert not made["held time"].is_sure and made["out"].is_sure


def test_consumers_that_took_whatever_came_may_be_at_their_limit_soon() -> None:
    assert told("busy").seen.queues[0].can_drain_per_s() == pytest.approx(225, rel=0.15)
    made, doubts = told("busy").foretold("load=2")
    assert "never at their limit" in doubts.queues["queue:/work"]
    assert not any(one.is_sure for one in made.values())
    assert all(why for why in (one.why for one in made.values()))
    assert told("busy").foretold("load=0.5")[1].sentences() == []
    # Those that hardly had anything to do can do more.
    made, doubts = told("free").foretold("load=2")
    assert doubts.sentences() == []
    assert made["out"].expected == pytest.approx(400, rel=0.03)
    # Nothing is held, before or after: what a confirm takes is the machine's.
    assert made["confirm p99, ms"].is_sure and made["confirm p99, ms"].trend == UNSURE


def test_a_factor_on_a_pace_that_was_not_seen_changes_nothing_that_is_sure() -> None:
    doubts = told("busy").foretold("consumers=0.5")[1]
    assert "what a lower one does is not in the record" in doubts.queues["queue:/work"]
    assert told("busy").foretold("consumers=2")[1].sentences() == []


def test_a_prefetch_below_what_consumers_have_unanswered_is_a_limit_of_its_own() -> None:
    seen = told("free").seen
    slow = replace(seen.queues[0], unacked=9.0)
    told("free").seen = replace(seen, queues=(slow,))
    try:
        doubts = told("free").foretold("prefetch=5")[1]
        assert "with a prefetch of 5" in doubts.queues["queue:/work"]
        assert told("free").foretold("prefetch=20")[1].sentences() == []
    finally:
        told("free").seen = seen
    assert (
        "with a prefetch of 2" in told("windowed").foretold("prefetch=2")[1].queues["queue:/work"]
    )


def queue(**changes: float) -> QueueSeen:
    one = QueueSeen("queue:/q", 400.0, 400.0, 200.0, 150.0, 1, 1.0, 1024, 262_144, 0.0, 20.0)
    return replace(one, **changes)  # type: ignore[arg-type]  # numbers as they are


def test_a_queue_that_swings_is_steady_and_one_that_grows_is_not() -> None:
    # 364 come and 400 leave in a window that ends at the low side of a swing.
    assert queue(in_per_s=364.0, growth_per_s=-1.0).is_steady()
    assert not queue(in_per_s=400.0, growth_per_s=8.0).is_steady()
    assert queue(held=0.5, growth_per_s=0.2).is_steady()


def runs(was: QueueSeen, will: QueueSeen) -> tuple[ModelledRun, ModelledRun]:
    before = told("windowed").before
    return (
        replace(before, seen=Observed(6.0, (was,), ())),
        replace(before, seen=Observed(6.0, (will,), ())),
    )


def test_more_in_than_out_cannot_last_and_is_said() -> None:
    flow = Flow("conn:1", "queue:/q", 400.0, 0.0, True, 50.0, 50, 1.0)
    seen = Observed(20.0, (queue(),), (flow,))
    model = model_of(seen, {}, 400)
    before, after = runs(queue(), queue(in_per_s=364.0, growth_per_s=-36.0))
    doubts = doubts_of(seen, model, model.workload, {"load": "1"}, before, after)
    assert doubts.queues["queue:/q"] == (
        "not steady: 364 messages/s come in and 400 are answered, which cannot last"
    )
    made = predictions(seen, before, after, checks(seen, before), doubts)
    assert not any(one.is_sure for one in made)
    # What lies at the ends of a run is no difference between what comes and what leaves.
    before, after = runs(queue(in_per_s=440.0), queue(in_per_s=364.0))
    made = predictions(seen, before, after, checks(seen, before))
    expected = {one.measure: one.expected for one in made}
    assert expected["in"] == expected["out"] == pytest.approx(400.0)


def test_a_model_that_is_far_off_knows_nothing_about_a_change() -> None:
    seen = Observed(20.0, (queue(),), ())
    before, after = runs(queue(held=700.0), queue(held=800.0))
    made = {one.measure: one for one in predictions(seen, before, after, checks(seen, before))}
    assert "+250 % off" in made["held"].why and not made["held"].is_sure
    assert made["out"].is_sure


def test_a_direction_is_stated_only_where_it_is_clear() -> None:
    assert trend_of(100.0, 130.0, NO_DOUBTS) == RISES
    assert trend_of(130.0, 100.0, NO_DOUBTS) == FALLS
    assert trend_of(100.0, 103.0, NO_DOUBTS) == trend_of(55.0, 50.0, NO_DOUBTS) == SAME
    assert trend_of(100.0, 118.0, NO_DOUBTS) == trend_of(118.0, 100.0, NO_DOUBTS) == UNSURE
    # What is below 50 ms may be anything up to that on a machine that has more to do.
    for low, high in ((0.1, 4.0), (4.0, 4.1), (3.0, 43.0), (3.0, 60.0), (45.0, 51.0)):
        assert trend_of(low, high, NO_DOUBTS) == trend_of(high, low, NO_DOUBTS) == UNSURE
    assert trend_of(3.0, 63.0, NO_DOUBTS) == RISES
    assert trend_of(63.0, 3.0, NO_DOUBTS) == FALLS
    unseen = Doubts({}, {}, {}, "they may have more")
    assert trend_of(100.0, 300.0, unseen) == UNSURE
    # At least as many are unconfirmed as were seen to be, and that alone takes longer.
    assert trend_of(10.0, 300.0, replace(unseen, least_ms=63.0)) == RISES
    assert trend_of(10.0, 300.0, replace(unseen, least_ms=40.0)) == UNSURE
    assert trend_of(100.0, 300.0, replace(unseen, least_ms=63.0)) == UNSURE
    # However many more there are: twice the rate, half the time.
    assert trend_of(100.0, 51.0, replace(unseen, if_more=0.5, if_less=0.6)) == FALLS
    assert trend_of(100.0, 41.0, replace(unseen, if_more=1.0, if_less=0.4)) == UNSURE
    assert trend_of(100.0, 98.0, replace(unseen, if_more=1.0, if_less=0.4)) == UNSURE
    assert trend_of(100.0, 101.0, replace(unseen, if_more=1.0, if_less=1.0)) == SAME
