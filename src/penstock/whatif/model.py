"""An observed load as a workload of the lab, and its run with the broker's own settings.

What cannot be seen is assumed, and said:
    a connection that was held   wanted more than it got: as much as it published while it was free,
                                 and publishes as fast as it may up to that
    one that was owed as many    keeps that many unconfirmed, and publishes as fast as that allows
    confirms as ever
    any other                    publishes what it did, on a timetable
    consumers of a queue with a  cannot do more than they did
    backlog or full windows
    others                       take whatever comes at once
Each pair of connection and queue is a connection of its own in the model. It begins empty and is
warmed up until the queues hold what they did, as far as that can be explained by rates.
"""

from dataclasses import dataclass, replace
from typing import Final

from penstock.base.config import Config
from penstock.broker.admin.views import actor_snapshots
from penstock.broker.broker import Broker
from penstock.lab.result import Result
from penstock.lab.run import NS_PER_S, WATCH_NS, simulate
from penstock.lab.workload import ConsumerSpec, PublisherSpec, QueueSpec, Target, Workload
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES
from penstock.telemetry.flight import FlightHistory
from penstock.whatif.observe import PUBLISH_BYTES, Flow, Observed, QueueSeen, observe

WANTED_MAX: Final = 20.0
"""Times what it published that a connection is taken to have wanted at most."""
BACKLOG: Final = 10.0
"""Messages ready on average, from which on a queue's consumers are its limit."""
FULL_SHARE: Final = 0.2
FLOWS_MAX: Final = 50
"""Publishers of one queue from which on they are taken to be alike."""
MESSAGES_MAX: Final = 60_000
"""That a run simulates, about: some ten seconds of work."""
SECONDS_MAX: Final = 6.0
CYCLES_S_MAX: Final = 30.0
"""The same where a queue stands at its depth mark: it takes nothing until it is half empty."""
AT_MARK: Final = 0.4
"""Of its depth mark: what holds that much stands there."""
WARM_UP_MAX_S: Final = 20.0
SETTLED: Final = 1.5
"""Times what all windows together take to drain."""
TRIES: Final = 3
"""Runs of one setting, each longer than the one before, until its queues are steady."""
UNLIMITED: Final = 10_000
"""Unconfirmed publishes that a client is taken to keep where nothing shows its limit."""
SEED: Final = 1


@dataclass(frozen=True, slots=True)
class Model:
    """workload: what is simulated; names: real name of each of its queues; notes: what had to be
    assumed that may matter, for people."""

    workload: Workload
    names: dict[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ModelledRun:
    """What a run of a model has shown: flows as they are seen in a record, with the real names of
    queues, and the lab's figures. seconds: of the measured stretch."""

    seen: Observed
    result: Result
    warm_up_s: float
    seconds: float = 0.0

    def peak_bytes(self) -> int:
        """Most that was held after the warm-up, which begins with a flood."""
        return max(self.result.lines["memory"][round(self.warm_up_s / self.result.bin_s) :])


def model_of(seen: Observed, prefetches: dict[str, int], window: int) -> Model:
    """The workload behind what was seen. prefetches: by queue, 0 for no limit; window: of credit in
    messages, 0 for none: publishers that begin at an empty queue fill it far above its mark, and
    that has to drain before it is what was recorded."""
    queues, publishers, consumers, notes = [], [], [], []
    names: dict[str, str] = {}
    warm_up_s = 0.5
    for number, one in enumerate(seen.queues):
        name = f"q{number}"
        names[name] = one.name
        queues.append(QueueSpec(name))
        flows = [flow for flow in seen.flows if flow.queue == one.name]
        mine = _publishers(name, one, flows)
        publishers += mine
        limit = drain_per_s(one)
        if one.consumers:
            rate = limit / one.consumers
            count, prefetch = one.consumers, prefetches.get(one.name, 0)
            consumers.append(ConsumerSpec(name, rate, count, prefetch))
        if limit > 0 and any(flow.is_held() for flow in flows):
            warm_up_s = max(warm_up_s, min(SETTLED * window * len(flows) / limit, WARM_UP_MAX_S))
        excess = sum(spec.rate_per_s * spec.count for spec in mine) - limit
        if one.is_paged():
            notes.append(f"{one.name} is paged to a disk; the model has none, and no depth mark")
        if not one.is_steady():
            notes.append(
                f"{one.name} was not steady in the record ({one.growth_per_s:+.0f} messages/s), so "
                "what follows for it is not sure"
            )
        elif limit > 0 and one.held > BACKLOG:
            need_s = 0.5 + 1.3 * one.held / excess if excess > 0 else 0.5
            warm_up_s = max(warm_up_s, min(need_s, WARM_UP_MAX_S))
            if not 0.5 < need_s <= WARM_UP_MAX_S:
                notes.append(
                    f"{one.name} held {one.held:.0f} messages, which its rates do not explain in "
                    f"{WARM_UP_MAX_S:g} s; the model has fewer"
                )
    held = [flow for flow in seen.flows if flow.is_held()]
    if held:
        notes.append(
            f"{len(held)} of {len(seen.flows)} flows were held; what they would have published is "
            "taken from what they did while they were free"
        )
    windowed = [flow for flow in seen.flows if flow.window() > 0]
    if windowed:
        notes.append(
            f"{len(windowed)} of {len(seen.flows)} flows waited for their confirms with "
            f"{_range([flow.window() for flow in windowed])} unconfirmed; they are taken to "
            "publish as fast as that allows"
        )
    is_paged = any(one.is_paged() for one in seen.queues)
    passing = sum(_passing_per_s(one, seen.flows) for one in seen.queues)
    longest_s = max((_cycles_s(one) for one in seen.queues), default=SECONDS_MAX)
    depth_bytes = 0 if is_paged else max((one.depth_bytes for one in seen.queues), default=0)
    seconds = min(longest_s, max(1.0, MESSAGES_MAX / max(passing, 1.0) - warm_up_s))
    return Model(
        Workload(
            "recorded", "as recorded", tuple(queues), tuple(publishers), tuple(consumers),
            seconds=seconds, warm_up_s=warm_up_s,
            depth_bytes=depth_bytes,
        ),
        names,
        tuple(notes),
    )  # fmt: skip


def run_model(model: Model, config: Config) -> ModelledRun:
    """Simulate `model` with `config`, for longer where a queue is not steady yet, up to TRIES
    times. Raises: LawBroken, PeerFailed, OperatorError."""
    workload = model.workload
    for left in range(TRIES - 1, -1, -1):
        run = _run_once(replace(model, workload=workload), config)
        if left == 0 or all(one.is_steady() for one in run.seen.queues):
            break
        passed = run.seen.in_per_s() * (workload.warm_up_s + workload.seconds)
        if passed > MESSAGES_MAX:
            break
        # What did not settle in one run is where the next one begins to look.
        longer_s = min(CYCLES_S_MAX, 1.5 * workload.seconds)
        warm_up_s = workload.warm_up_s + workload.seconds
        workload = replace(workload, seconds=longer_s, warm_up_s=warm_up_s)
    return run


def _run_once(model: Model, config: Config) -> ModelledRun:
    workload = model.workload
    history = FlightHistory()
    rounds = _Rounds(history, workload)
    config = replace(config, queue_depth_bytes=workload.depth_bytes)
    result = simulate(
        workload, config.profile, SEED, None, config=config, has_own_chance=True,
        watch=rounds.take,
    )  # fmt: skip
    seen = observe(history, workload.seconds)
    queues = tuple(
        replace(one, name=model.names[one.name.removeprefix("queue:/")]) for one in seen.queues
    )
    flows = tuple(
        replace(one, queue=model.names[one.queue.removeprefix("queue:/")]) for one in seen.flows
    )
    return ModelledRun(
        Observed(seen.span_s, queues, flows), result, workload.warm_up_s, workload.seconds
    )


class _Rounds:
    """Takes a round of snapshots each time it is shown the broker, in the measured stretch."""

    def __init__(self, history: FlightHistory, workload: Workload) -> None:
        self.history = history
        self.workload = workload
        self._first_ns = -1

    def take(self, broker: Broker, now_ns: int) -> None:
        if self._first_ns < 0:
            self._first_ns = now_ns - WATCH_NS
        after_s = (now_ns - self._first_ns) / NS_PER_S - self.workload.warm_up_s
        if 0 <= after_s <= self.workload.seconds:
            # Accounts of time are as late as the broker's clock, which may be ahead of `now_ns`.
            self.history.push(broker.clock.monotonic_ns(), actor_snapshots(broker))


def _publishers(name: str, queue: QueueSeen, flows: list[Flow]) -> list[PublisherSpec]:
    """Those of one queue: each for itself, or as many that are alike."""
    target = (Target("", name),)
    size = max(16, queue.body_bytes)
    if len(flows) > FLOWS_MAX:
        mean = sum(wanted_per_s(flow) for flow in flows) / len(flows)
        is_pressing = any(flow.is_held() or flow.window() for flow in flows)
        confirms = max(_confirms_max(flow) for flow in flows)
        return [
            PublisherSpec(
                name, target, mean, len(flows), size, size, confirms, is_paced=not is_pressing
            )
        ]
    return [
        PublisherSpec(
            flow.connection,
            target,
            wanted_per_s(flow),
            1,
            size,
            size,
            _confirms_max(flow),
            is_paced=not flow.is_held() and not flow.window(),
        )
        for flow in flows
    ]


def _confirms_max(flow: Flow) -> int:
    """Publishes that its program keeps unconfirmed, 0 for one without confirms."""
    if not flow.has_confirms:
        return 0
    return flow.window() or UNLIMITED


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low}" if low == high else f"{low} to {high}"


def wanted_per_s(flow: Flow) -> float:
    """What its program would publish if nothing stopped it: what it did in the time in which it was
    neither held nor waiting for its confirms, WANTED_MAX times what it did at most."""
    if flow.window():
        stopped = flow.full_share
    elif flow.is_held():
        stopped = flow.blocked_share
    else:
        return flow.per_s
    return flow.per_s * min(WANTED_MAX, 1 / max(1e-6, 1 - stopped))


def _passing_per_s(queue: QueueSeen, flows: tuple[Flow, ...]) -> float:
    """What will be simulated: what is wanted, or what consumers do where that holds publishers."""
    wanted = sum(wanted_per_s(flow) for flow in flows if flow.queue == queue.name)
    limit = drain_per_s(queue)
    return wanted if limit == 0 or queue.is_paged() else min(wanted, max(limit, queue.in_per_s))


def _cycles_s(queue: QueueSeen) -> float:
    """How long a run has to be for this queue, seconds: two of its turns between full and open."""
    limit = drain_per_s(queue)
    size = queue.body_bytes + PUBLISH_BYTES + MESSAGE_OVERHEAD_BYTES
    if limit == 0 or queue.is_paged() or queue.held * size < AT_MARK * queue.depth_bytes:
        return SECONDS_MAX
    return max(SECONDS_MAX, min(CYCLES_S_MAX, queue.depth_bytes / (size * limit)))


def drain_per_s(queue: QueueSeen) -> float:
    """What its consumers were seen to do at most together, 0 where they took whatever came."""
    if queue.ready > BACKLOG or queue.full_share > FULL_SHARE:
        return queue.out_per_s
    return 0.0
