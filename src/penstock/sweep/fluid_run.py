"""One point under the fluid model: arrays from its workload, steps, and the lab's figures.

Figures are defined as in the lab: the same warm-up and measured stretch, the same rule for whose
confirms count (every publish whose wait touched the stretch), the same drain after it.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from penstock.base.quantities import parse_window
from penstock.flow.profile import Profile, profile_named
from penstock.lab.model import LOOPBACK
from penstock.lab.peers import CATCH_UP_NS, phases_apart
from penstock.lab.result import BIN_S, Result, fair_shares, is_growing, jain
from penstock.lab.workload import ConsumerSpec, PublisherSpec, QueueSpec, Workload
from penstock.lab.world import READ_BYTES
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.sweep.choices import FLUID
from penstock.sweep.fluid import UNLIMITED, Crowd, Fluid, Queues, Reals, Rules, Wholes
from penstock.sweep.fluid_latency import Waits, WatchedPublishers, add_confirms, add_deliveries
from penstock.sweep.load import CHAINS, FAN_IN, chain, rates_of, workload_of
from penstock.sweep.point import Point

STEP_S: Final = 0.002
STEP_MANY_S: Final = 0.005
MANY: Final = 1000
"""Publishers from which on steps are STEP_MANY_S."""
SLICE: Final = 4096
"""Publishers moved at once; a multiple of FAN_IN."""
WATCHED_MAX: Final = 400
WATCHED_MIN: Final = 2
"""Publishers whose curves are kept: so many in all, and of each kind in each slice at least."""
FAIRNESS_MAX: Final = 20_000
"""Publishers that the index of fairness is taken of: it sorts them."""
PUBLISH_BYTES: Final = 30
"""Of a publish besides its body, as the broker counts it."""
FRAMES_BYTES: Final = 54
"""Of a publish on the wire besides its body."""


@dataclass(frozen=True, slots=True)
class FluidInput:
    """Everything the model is given. specs: who publishes, and `spec_of` which of them each
    publisher is; bodies: bytes, by publisher; is_innocent: by queue; work_s: what a consumer needs
    for a message, by queue."""

    crowd: Crowd
    queues: Queues
    rules: Rules
    specs: tuple[PublisherSpec, ...]
    spec_of: Wholes
    bodies: Reals
    is_innocent: Reals
    work_s: Reals
    warm_up_s: float
    seconds: float


def run_fluid(point: Point) -> Result:
    """The figures of `point`. Raises: OperatorError for a workload or profile there is not."""
    plan = plan_of(point)
    seen = Seen(len(plan.crowd.rate), len(plan.is_innocent))
    for part in _slices(point, plan):
        _run_part(plan, part, seen)
    innocent = float(seen.gone[plan.is_innocent > 0].sum())
    bodies = np.bincount(plan.crowd.queue, plan.bodies * plan.crowd.rate, len(seen.gone))
    rates = np.bincount(plan.crowd.queue, plan.crowd.rate, len(seen.gone))
    return Result(
        point.workload,
        point.profile,
        FLUID,
        point.seed,
        plan.seconds,
        float(seen.gone.sum()) / plan.seconds,
        float(np.dot(seen.gone, bodies / np.maximum(rates, 1e-9))) / plan.seconds,
        innocent / plan.seconds,
        seen.confirms.latency(),
        seen.deliveries.latency(),
        seen.innocents.latency(),
        round(float(seen.held.max())),
        0,
        _fairness(plan, seen.confirmed),
        is_growing(_bins(seen.held, _step_s(plan)), round(plan.warm_up_s / BIN_S)),
        innocent_share=_innocent_share(plan, innocent),
    )


class Seen:
    """What all slices together have shown. gone, confirmed: in the measured stretch, by queue
    and by publisher; held: bytes at the end of each step."""

    def __init__(self, publishers: int, queues: int) -> None:
        self.gone = np.zeros(queues)
        self.confirmed = np.zeros(publishers)
        self.held = np.zeros(0)
        self.confirms = Waits()
        self.deliveries = Waits()
        self.innocents = Waits()


def _slices(point: Point, plan: FluidInput) -> list[slice]:
    """Publishers that are run together. The queues of a chain know nothing of each other, and
    arrays that fit into a processor's cache are moved several times as fast."""
    count = len(plan.crowd.rate)
    if point.workload not in CHAINS:
        return [slice(0, count)]
    return [slice(at, min(at + SLICE, count)) for at in range(0, count, SLICE)]


def _run_part(plan: FluidInput, part: slice, seen: Seen) -> None:
    """Run `part` of the publishers, with their queues, and add what it shows to `seen`."""
    crowd = plan.crowd
    first, last = int(crowd.queue[part].min()), int(crowd.queue[part].max()) + 1
    mine = Crowd(
        crowd.rate[part], crowd.first_s[part], crowd.burst[part], crowd.catch_up_s[part],
        crowd.room[part], crowd.unconfirmed_max[part], crowd.queue[part] - first,
    )  # fmt: skip
    every, q = plan.queues, slice(first, last)
    queues = Queues(
        every.service[q], every.drain[q], every.commit_s[q], every.mark[q],
        every.at_rest[q],
    )  # fmt: skip
    watched = _watched(plan, part)
    fluid = Fluid(mine, queues, plan.rules, watched.indices - part.start)
    from_s, to_s = plan.warm_up_s, plan.warm_up_s + plan.seconds
    step_s = _step_s(plan)
    _advance(fluid, from_s, step_s)
    gone, confirmed = fluid.gone.copy(), fluid.confirmed.copy()
    _advance(fluid, to_s, step_s)
    seen.gone[q] += fluid.gone - gone
    seen.confirmed[part] += fluid.confirmed - confirmed
    held = np.array(fluid.curves.held_bytes)
    seen.held = held if len(seen.held) == 0 else seen.held + held
    has_confirms = mine.unconfirmed_max < UNLIMITED
    while fluid.at_s < to_s + plan.seconds:
        fluid.step(step_s, is_publishing=False)
        if not (has_confirms & (fluid.written - fluid.confirmed > 0.5)).any():
            break
    add_confirms(seen.confirms, fluid.curves, watched, from_s, to_s)
    add_deliveries(seen.deliveries, fluid.curves, watched, from_s, to_s, is_innocent=False)
    add_deliveries(seen.innocents, fluid.curves, watched, from_s, to_s, is_innocent=True)


def plan_of(point: Point) -> FluidInput:
    """Arrays for `point`. Chains are built without a description of each publisher, because a
    million of those take longer than the run."""
    profile = profile_named(point.profile)
    if point.workload not in CHAINS:
        workload = workload_of(point)
        return _plan(point, profile, workload, *_expanded(workload))
    workload = workload_of(replace(point, connections=FAN_IN))
    rates = np.array(rates_of(point.connections, point.load, point.seed))
    spec_of = np.zeros(len(rates), dtype=np.int64)
    queue = np.arange(len(rates), dtype=np.int64) // FAN_IN
    return _plan(point, profile, workload, rates, spec_of, queue)


def _expanded(workload: Workload) -> tuple[Reals, Wholes, Wholes]:
    """Rates, specs and queues of every publisher."""
    counts = [one.count for one in workload.publishers]
    names = [one.name for one in workload.queues]
    rates = np.repeat([one.rate_per_s for one in workload.publishers], counts)
    spec_of = np.repeat(np.arange(len(counts)), counts)
    at = [names.index(one.targets[0].key) for one in workload.publishers]
    return rates, spec_of, np.repeat(np.array(at, dtype=np.int64), counts)


def _plan(
    point: Point, profile: Profile, workload: Workload, rates: Reals, spec_of: Wholes, queue: Wholes
) -> FluidInput:
    # Those of a chain differ in their rates only.
    specs = workload.publishers[: int(spec_of.max()) + 1]
    phases = np.array(phases_apart(len(rates), point.seed))
    bursts = np.array([float(one.burst) for one in specs])[spec_of]
    bodies = np.array([_body_bytes(one) for one in specs])[spec_of]
    paced = np.array([one.is_paced for one in specs])[spec_of]
    limits = np.array([float(one.confirms_max or UNLIMITED) for one in specs])[spec_of]
    crowd = Crowd(
        rate=rates,
        first_s=phases * bursts / rates,
        burst=bursts,
        catch_up_s=np.where(paced, UNLIMITED, CATCH_UP_NS / 1e9),
        room=_room(bodies),
        unconfirmed_max=limits,
        queue=queue,
    )
    many = int(queue.max()) + 1
    sizes = np.bincount(queue, bodies * rates, many) / np.maximum(np.bincount(queue, rates), 1e-9)
    pairs = _queues(workload, many)
    mean_bytes = float(np.dot(bodies, rates) / rates.sum())
    return FluidInput(
        crowd,
        _queue_arrays(pairs, sizes, point.depth_bytes or workload.depth_bytes, profile),
        _rules(point, profile, mean_bytes + PUBLISH_BYTES),
        specs,
        spec_of,
        bodies,
        np.array([float(one.is_innocent) for _, one in pairs]),
        np.array([one.count / one.rate_per_s if one.rate_per_s else 0.0 for _, one in pairs]),
        workload.warm_up_s,
        workload.seconds,
    )


def _queues(workload: Workload, many: int) -> list[tuple[QueueSpec, ConsumerSpec]]:
    """Each queue with its consumers put together; those of a chain are all alike."""
    if workload.name in CHAINS:
        few = chain(workload.name, FAN_IN, 1.0, 0)
        return [(few.queues[0], few.consumers[0])] * many
    pairs = []
    for spec in workload.queues[:many]:
        mine = [one for one in workload.consumers if one.queue == spec.name]
        rate = (
            0.0
            if any(one.rate_per_s == 0 for one in mine)
            else sum(one.rate_per_s * one.count for one in mine)
        )
        is_innocent = any(one.is_innocent for one in mine)
        # No consumer counts as a very slow one.
        rate = rate if mine else 1e-9
        count = sum(one.count for one in mine)
        pairs.append((spec, ConsumerSpec(spec.name, rate, count, is_innocent=is_innocent)))
    return pairs


def _queue_arrays(
    pairs: list[tuple[QueueSpec, ConsumerSpec]], sizes: Reals, depth_bytes: int, profile: Profile
) -> Queues:
    raw = sizes + PUBLISH_BYTES
    at_rest = raw + MESSAGE_OVERHEAD_BYTES
    spent_us = np.array([one.service_us for one, _ in pairs])
    spent_us = spent_us + np.array([one.service_us_per_kib for one, _ in pairs]) * raw / 1024
    drain = np.array([one.rate_per_s or UNLIMITED for _, one in pairs])
    mark = depth_bytes / at_rest
    return Queues(
        np.where(spent_us > 0, 1e6 / np.maximum(spent_us, 1e-9), UNLIMITED),
        drain,
        np.array([one.commit_ms / 1000 for one, _ in pairs]),
        mark if profile.is_depth_aware else np.full(len(pairs), UNLIMITED),
        at_rest,
    )


def _rules(point: Point, profile: Profile, raw_bytes: float) -> Rules:
    """Windows in messages; one in bytes counts as as many messages of the mean size."""
    initial, more_after = profile.credit_initial, profile.credit_more_after
    if point.credit:
        initial, more_after = parse_window(point.credit)
    window, quantum = float(initial or UNLIMITED), float(more_after or UNLIMITED)
    if profile.credit_bytes_initial:
        window = min(window, profile.credit_bytes_initial / raw_bytes)
        quantum = min(quantum, profile.credit_bytes_more_after / raw_bytes)
    return Rules(window, quantum, profile.is_parking)


def _room(bodies: Reals) -> Reals:
    """Messages between a program and the gate of its connection: what the kernels hold, and a
    quarter of a read that was begun."""
    return (LOOPBACK.up_bytes + READ_BYTES / 4) / (bodies + FRAMES_BYTES)


def _body_bytes(one: PublisherSpec) -> float:
    """The mean of a body, drawn evenly on a logarithmic scale."""
    low, high = one.size_bytes_lowest, one.size_bytes_highest
    return float(low) if high == low else (high - low) / float(np.log(high / low))


def _watched(plan: FluidInput, part: slice) -> WatchedPublishers:
    """Of every kind of publisher in `part` as many, evenly spread over those there are."""
    indices, weights = [], []
    share = (part.stop - part.start) / len(plan.spec_of)
    each = max(WATCHED_MIN, int(WATCHED_MAX * share / len(plan.specs)))
    for number in range(len(plan.specs)):
        mine = part.start + np.flatnonzero(plan.spec_of[part] == number)
        some = mine[np.linspace(0, len(mine) - 1, min(each, len(mine))).astype(np.int64)]
        indices.append(some)
        weights.append(np.full(len(some), len(mine) / len(some)))
    chosen = np.concatenate(indices)
    specs = [plan.specs[number] for number in plan.spec_of[chosen]]
    return WatchedPublishers(
        chosen,
        np.concatenate(weights),
        np.array([one.is_paced for one in specs]),
        np.array([one.confirms_max > 0 for one in specs]),
        np.array([one.targets[0].is_innocent for one in specs]),
        plan.work_s[plan.crowd.queue[chosen]] * 1000,
    )


def _step_s(plan: FluidInput) -> float:
    return STEP_S if len(plan.crowd.rate) < MANY else STEP_MANY_S


def _advance(fluid: Fluid, to_s: float, step_s: float) -> None:
    while fluid.at_s < to_s - step_s / 2:
        fluid.step(step_s, is_publishing=True)


def _bins(held: Reals, step_s: float) -> list[int]:
    """The most in each bin of the lab's width."""
    each = round(BIN_S / step_s)
    return [round(float(held[at : at + each].max())) for at in range(0, len(held), each)]


def _fairness(plan: FluidInput, confirmed: Reals) -> float:
    """As the lab's, on what queues took instead of what arrived."""
    guilty = plan.is_innocent[plan.crowd.queue] == 0
    arrived = confirmed[guilty][:FAIRNESS_MAX]
    demands = plan.crowd.rate[guilty][:FAIRNESS_MAX] * plan.seconds
    parts = fair_shares(list(demands), float(arrived.sum()))
    return jain(float(a) / p for a, p in zip(arrived, parts, strict=True) if p > 0)


def _innocent_share(plan: FluidInput, arrived: float) -> float | None:
    """Of what they asked for, which is what they get alone."""
    innocent = plan.is_innocent[plan.crowd.queue] > 0
    asked = float(plan.crowd.rate[innocent].sum()) * plan.seconds
    return arrived / asked if asked > 0 else None
