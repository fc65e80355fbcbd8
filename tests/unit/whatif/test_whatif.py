"""Tests of what-if: a simulated broker is recorded, and the model is asked to say what it did."""

from dataclasses import replace
from functools import cache

import pytest

from penstock.base.config import Config
from penstock.base.errors import OperatorError
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
from penstock.whatif.change import Setup, all_changed, changed, recorded, window_of
from penstock.whatif.judge import checks, errors, predictions
from penstock.whatif.model import Model, ModelledRun, model_of, run_model
from penstock.whatif.observe import Flow, Observed, QueueSeen, observe, prefetch_of

CONFIG = Config(
    profile="penstock",
    credit_channel_queue="40/20",
    credit_connection_channel="40/20",
    parked_bytes=1,
)
TRUTH = Workload(
    "truth",
    "two publishers for a slow consumer, beside a queue that nothing is wrong with",
    (QueueSpec("slow"), QueueSpec("fine")),
    (
        PublisherSpec("a", (Target("", "slow"),), 400, count=2, size_bytes_lowest=512,
                   size_bytes_highest=512),
        PublisherSpec("b", (Target("", "fine"),), 200, confirms_max=0, is_paced=True),
    ),
    (ConsumerSpec("slow", rate_per_s=300, prefetch=20), ConsumerSpec("fine", prefetch=0)),
    seconds=4.0,
    warm_up_s=1.0,
    depth_bytes=64 * KIB,
)  # fmt: skip


@cache
def truth(config: Config = CONFIG) -> FlightHistory:
    """What a flight recorder knows of the second half of TRUTH."""
    history = FlightHistory()

    def watch(broker: Broker, now_ns: int) -> None:
        if 2_000_000_000 < now_ns < 5_000_000_000:
            history.push(broker.clock.monotonic_ns(), actor_snapshots(broker))

    config = replace(config, queue_depth_bytes=TRUTH.depth_bytes)
    simulate(TRUTH, "penstock", 5, None, config=config, watch=watch)
    return history


@cache
def model() -> Model:
    seen = observe(truth(), 2.5)
    prefetches = {one.name: prefetch_of(truth(), one.name, 2.5) for one in seen.queues}
    assert prefetches == {"queue:/slow": 20, "queue:/fine": 0}
    return model_of(seen, prefetches, window_of(CONFIG))


@cache
def as_it_was() -> ModelledRun:
    return run_model(model(), CONFIG)


def test_a_record_tells_who_published_where() -> None:
    seen = observe(truth(), 2.5)
    slow, fine = seen.queues
    assert (slow.name, fine.name) == ("queue:/slow", "queue:/fine")
    assert slow.out_per_s == pytest.approx(300, rel=0.03)
    assert fine.in_per_s == pytest.approx(200, rel=0.03)
    assert slow.is_steady() and fine.is_steady() and not slow.is_paged()
    assert slow.body_bytes == pytest.approx(512, rel=0.1)
    assert slow.blocked_share > 0.9 and fine.blocked_share == 0
    assert [(flow.queue, flow.has_confirms) for flow in seen.flows] == [
        ("queue:/slow", True),
        ("queue:/slow", True),
        ("queue:/fine", False),
    ]


def test_the_model_says_what_was_recorded() -> None:
    found = checks(observe(truth(), 2.5), as_it_was())
    worst = errors(found)
    # Latency is of all queues together.
    assert {one.queue for one in found} == {"queue:/slow", "queue:/fine", ""}
    assert worst["in"] < 0.05 and worst["out"] < 0.03
    assert worst["held"] < 0.15 and worst["held time"] < 0.05


def test_who_has_publishes_parked_is_held_although_his_client_is_not() -> None:
    seen = observe(truth(replace(CONFIG, parked_bytes=Config().parked_bytes)), 2.5)
    to_slow = [flow for flow in seen.flows if flow.queue == "queue:/slow"]
    assert len(to_slow) == 2 and all(flow.is_held() for flow in to_slow)
    assert not any(flow.is_held() for flow in seen.flows if flow.queue == "queue:/fine")


def test_twice_as_fast_consumers_are_predicted() -> None:
    seen = observe(truth(), 2.5)
    setup = Setup(CONFIG, model().workload)
    faster = changed(changed(setup, "consumers=2"), "credit.channel_queue=20/10")
    before = as_it_was()
    after = run_model(replace(model(), workload=faster.workload), faster.config)
    made = predictions(seen, before, after, checks(seen, before))
    out = next(one for one in made if (one.queue, one.measure) == ("queue:/slow", "out"))
    assert out.expected == pytest.approx(600, rel=0.05)
    assert out.low < 600 < out.high
    total = next(one for one in made if one.measure == "delivery p99, ms")
    assert total.expected is None and total.after < 0.7 * total.before


def flow(per_s: float, blocked_share: float) -> Observed:
    queue = QueueSeen("queue:/q", per_s, per_s, 50.0, 40.0, 1, 1.0, 1024, 65_536, blocked_share)
    return Observed(10.0, (queue,), (Flow("conn:1", "queue:/q", per_s, blocked_share, True),))


def test_who_was_held_wanted_what_it_did_while_it_was_free() -> None:
    held = model_of(flow(100.0, 0.75), {}, 400).workload.publishers[0]
    assert (held.rate_per_s, held.is_paced) == (400.0, False)
    free = model_of(flow(100.0, 0.0), {}, 400).workload.publishers[0]
    assert (free.rate_per_s, free.is_paced) == (100.0, True)
    always = model_of(flow(100.0, 1.0), {}, 400).workload.publishers[0]
    assert always.rate_per_s == 2000.0


def test_what_was_not_steady_is_not_compared_and_said() -> None:
    seen = flow(100.0, 0.0)
    growing = replace(seen.queues[0], in_per_s=200.0, growth_per_s=100.0, span_s=10.0)
    rising = replace(seen, queues=(growing,))
    found = model_of(rising, {}, 400)
    assert any("not steady in the record (+100 messages/s)" in note for note in found.notes)
    paged = replace(seen, queues=(replace(seen.queues[0], held=5000.0),))
    assert any("is paged to a disk" in note for note in model_of(paged, {}, 400).notes)


def test_settings_are_those_of_the_record() -> None:
    config = recorded("penstock", {"credit.channel_queue": "70/30", "notify.blocked": "off"})
    assert window_of(config) == 70
    assert window_of(recorded("none", {"credit.channel_queue": "off"})) == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("colour=red", "'colour=red' is no change; write KEY=VALUE with one of: profile, credit"),
        ("load", "is no change"),
        ("load=0", "load '0' is not a factor"),
        ("prefetch=-1", "prefetch '-1' is not a number 0..65535"),
        ("profile=nope", "flow profile 'nope' is unknown"),
        ("credit.channel_queue=10/20", "initial must be at least more_after"),
    ],
)
def test_a_change_that_is_none_is_refused(text: str, message: str) -> None:
    with pytest.raises(OperatorError, match=message):
        changed(Setup(CONFIG, TRUTH), text)


def test_changes_reach_where_they_belong() -> None:
    setup = Setup(CONFIG, TRUTH)
    assert changed(setup, "profile=adaptive").config == Config(profile="adaptive")
    assert changed(setup, "queue_depth=1MiB").workload.depth_bytes == 1 << 20
    assert changed(setup, "memory_high=2MiB").workload.memory_high_bytes == 2 << 20
    assert changed(setup, "load=2").workload.publishers[0].rate_per_s == 800
    assert changed(setup, "prefetch=7").workload.consumers[0].prefetch == 7


def test_a_queue_at_its_depth_mark_is_watched_for_whole_turns() -> None:
    seen = flow(30.0, 0.99)
    # 300 messages of 1.2 KB are more than 64 KiB; the mark is drained in 1.9 s at 30 a second.
    at_mark = replace(seen.queues[0], held=50.0, depth_bytes=400_000, ready=300.0)
    full = replace(seen, queues=(replace(at_mark, held=300.0),))
    assert model_of(full, {}, 400).workload.seconds == pytest.approx(400_000 / (1184 * 30), abs=0.1)
    below = replace(seen, queues=(at_mark,))
    assert model_of(below, {}, 400).workload.seconds == 6.0
    # 20 times 5000 a second were wanted; what passes is what the consumers take.
    fast = flow(5000.0, 1.0)
    assert model_of(fast, {}, 400).workload.seconds == 6.0
    free = flow(50_000.0, 0.0)
    free = replace(free, queues=(replace(free.queues[0], ready=0.0, full_share=0.0),))
    assert model_of(free, {}, 400).workload.seconds == 1.0


def test_a_window_is_not_lost_to_a_profile_behind_it() -> None:
    setup = Setup(CONFIG, TRUTH)
    window, profile = ("credit.channel_queue", "10/5"), ("profile", "rabbitmq-4")
    for changes in ((window, profile), (profile, window)):
        config = all_changed(setup, dict(changes)).config
        assert (config.profile, config.credit_channel_queue) == ("rabbitmq-4", "10/5")
