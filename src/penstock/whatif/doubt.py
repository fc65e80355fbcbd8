"""What a record does not show, so that nothing sure follows from it for a changed setting.

    the record was not steady      what a queue held was a matter of when
    the model was not steady       more comes than leaves, or less: that cannot last, and where it
                                   ends is not seen in a run
    consumers were never at their  how much more they can do is not known; neither is what a factor
    limit                          on their pace does
    publishers were never at       how much more they would publish is not known
    theirs
    publishers were held           how many confirms their programs wait for is not known, and the
                                   time to a confirm is that many divided by the rate
Everything here is a sentence for people, or "" where there is no doubt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.lab.workload import Workload
from penstock.whatif.model import Model, ModelledRun, drain_per_s, wanted_per_s
from penstock.whatif.observe import Flow, Observed, QueueSeen, confirm_mean_ms

MARGIN: Final = 1.05
"""Times what was shown to be possible: closer than a record can tell."""
AT_LIMIT: Final = 0.9
"""Of what a program is taken to want: what it publishes then follows from that and nothing else."""
ROOM: Final = 1.25
"""Times what it does: what a consumer's window must allow, or it is what limits it."""
PREFETCH_MIN: Final = 4
"""Deliveries; with fewer a consumer waits for the network, and for programs between two reads."""
MORE: Final = 1.5
MORE_MESSAGES: Final = 10
"""What a program may have unconfirmed above what it was seen to have, before its own limit, which
was not seen, could matter."""


@dataclass(frozen=True, slots=True)
class Doubts:
    """queues: by name, why what is said of it is unsure; levels: the same of what it holds alone;
    held_times: of how long its publishers are held; latency: of the time to a confirm, all
    publishers together, and with such a doubt:
        least_ms   what a confirm takes at least, 0 where nothing is known
        if_more    times: how it changes if programs have far more unconfirmed than was seen, which
                   is with the rate alone; 0 where nothing is known
        if_less    the same if they have nothing unconfirmed but what the broker has read."""

    queues: dict[str, str]
    levels: dict[str, str]
    held_times: dict[str, str]
    latency: str
    least_ms: float = 0.0
    if_more: float = 0.0
    if_less: float = 0.0

    def of(self, queue: str, measure: str) -> str:
        """Of one measure of a queue, "" for none."""
        why = self.queues.get(queue, "")
        if not why and measure == "held":
            why = self.levels.get(queue, "")
        if not why and measure == "held time":
            why = self.held_times.get(queue, "")
        return why

    def sentences(self) -> list[str]:
        """Each once, for people."""
        found = [f"{name}: {why}" for name, why in self.queues.items()]
        for some in (self.levels, self.held_times):
            found += [f"{name}: {why}" for name, why in some.items() if name not in self.queues]
        return found + ([f"latency: {self.latency}"] if self.latency else [])


def doubts_of(
    seen: Observed, model: Model, wanted: Workload, changes: Mapping[str, str],
    before: ModelledRun, after: ModelledRun,
) -> Doubts:  # fmt: skip
    """What is not sure of `after`. wanted: the workload with the change; changes: by key."""
    factor = float(changes.get("consumers", "1"))
    queues: dict[str, str] = {}
    levels: dict[str, str] = {}
    held_times: dict[str, str] = {}
    prefetches = {model.names[one.queue]: (one.prefetch, one.count) for one in wanted.consumers}
    for one in seen.queues:
        was, will = of_queue(before.seen, one.name), of_queue(after.seen, one.name)
        # A queue that nobody consumes has none.
        limits = prefetches.get(one.name) if "prefetch" in changes else None
        why = _of_steadiness(one, was, will)
        if not why and will is not None:
            why = (
                _of_consumers(one, will, factor)
                or (limits is not None and _of_prefetch(one, will, *limits))
                or _of_publishers(one, will, seen)
            ) or ""
        if why:
            queues[one.name] = why
        elif one.is_paged():
            levels[one.name] = "it is paged to a disk, which the model does not have"
        why = _of_windows(one, seen, after)
        if why:
            held_times[one.name] = why
    confirming = {flow.queue for flow in seen.flows if flow.has_confirms}
    unsure = [name for name in (*queues, *levels) if name in confirming]
    latency, least_ms = _of_latency(seen, after)
    if_more = if_less = 0.0
    if latency and not unsure:
        if_more = _if_more(seen, before, after)
        first_ms = confirm_mean_ms(before.seen)
        if_less = confirm_mean_ms(after.seen) / first_ms if first_ms > 0 else 0.0
    elif not latency and unsure:
        latency = f"it depends on {unsure[0]}, which is not sure"
    return Doubts(queues, levels, held_times, latency, least_ms, if_more, if_less)


def of_queue(seen: Observed, queue: str) -> QueueSeen | None:
    """What was seen of it."""
    return next((one for one in seen.queues if one.name == queue), None)


def _of_steadiness(one: QueueSeen, was: QueueSeen | None, will: QueueSeen | None) -> str:
    if not one.is_steady():
        return f"not steady in the record: it grew by {one.growth_per_s:+.0f} messages/s"
    if was is None or will is None:
        return "nothing reached it in the model"
    if not was.is_steady():
        return f"not steady: the model of it as it was grows by {was.growth_per_s:+.0f} messages/s"
    if not will.is_steady():
        return (
            f"not steady: {will.out_per_s + will.growth_per_s:.0f} messages/s come in and "
            f"{will.out_per_s:.0f} are answered, which cannot last"
        )
    return ""


def _of_consumers(one: QueueSeen, will: QueueSeen, factor: float) -> str:
    """factor: on their pace."""
    if drain_per_s(one) > 0:
        return ""
    if factor < 1 and will.out_per_s > MARGIN * factor * one.can_drain_per_s():
        return (
            "its consumers were never at their limit, so what a lower one does is not in the record"
        )
    if will.out_per_s > MARGIN * max(one.out_per_s, one.can_drain_per_s()):
        return (
            f"its consumers were never at their limit; that they can answer {will.out_per_s:.0f} a "
            f"second is not in the record, which shows {one.can_drain_per_s():.0f} to be possible"
        )
    return ""


def _of_prefetch(one: QueueSeen, will: QueueSeen, prefetch: int, consumers: int) -> str:
    """A window of `prefetch` for each of its consumers: is it what limits them?"""
    if prefetch == 0:
        return ""
    if drain_per_s(one) > 0:
        # Their time for one message is known, as their window was full.
        is_small = prefetch < PREFETCH_MIN
    else:
        # By Little's law they need what they have unanswered on average.
        is_small = prefetch * consumers < ROOM * one.unacked * will.out_per_s / one.out_per_s
    if not is_small:
        return ""
    return f"with a prefetch of {prefetch} the network and its consumers' own pauses may limit it"


def _of_publishers(one: QueueSeen, will: QueueSeen, seen: Observed) -> str:
    """Those that were stopped wanted more, but how much more?"""
    flows = [flow for flow in seen.flows if flow.queue == one.name]
    stopped = [flow for flow in flows if flow.is_held() or flow.window()]
    if not stopped or will.out_per_s <= MARGIN * one.out_per_s:
        return ""
    most = sum(wanted_per_s(flow) for flow in flows)
    if will.out_per_s < AT_LIMIT * most:
        return ""
    return (
        f"its publishers were stopped, and would publish about {most:.0f} messages/s as far as is "
        "known; whether it is less or more then decides"
    )


def _of_windows(one: QueueSeen, seen: Observed, after: ModelledRun) -> str:
    """Publishers that were held before they had as much unconfirmed as they may: would they still
    be held where more is allowed?"""
    was = [flow for flow in seen.flows if flow.queue == one.name and flow.is_held()]
    then = [flow for flow in after.seen.flows if flow.queue == one.name]
    if not was or not any(flow.is_held() for flow in then):
        return ""
    confirming = [flow.unconfirmed_max for flow in was if flow.has_confirms]
    most = max((flow.unconfirmed_max for flow in then), default=0)
    if not confirming or most <= MORE * max(confirming):
        return ""
    return (
        f"to be held, its publishers would need {most} unconfirmed, and were never seen with more "
        f"than {max(confirming)}; whether their programs go so far is not in the record"
    )


def _if_more(seen: Observed, before: ModelledRun, after: ModelledRun) -> float:
    """Slowest and fastest queue that held somebody must agree to within MARGIN."""
    found = []
    for name in {flow.queue for flow in seen.flows if flow.is_held()}:
        was, will = of_queue(before.seen, name), of_queue(after.seen, name)
        if was is None or will is None or will.out_per_s == 0:
            return 0.0
        found.append(was.out_per_s / will.out_per_s)
    if not found or max(found) > MARGIN * min(found):
        return 0.0
    return sum(found) / len(found)


def _of_latency(seen: Observed, after: ModelledRun) -> tuple[str, float]:
    """And what a confirm takes at least, ms."""
    held = [flow for flow in seen.flows if flow.is_held()]
    if held:
        return (
            f"{len(held)} of {len(seen.flows)} flows were held with up to "
            f"{max(flow.unconfirmed_max for flow in held)} unconfirmed; how many more their "
            "programs would have is not in the record, and they wait for those as well"
        ), 0.0
    for queue in after.seen.queues:
        flows = [flow for flow in seen.flows if flow.queue == queue.name and flow.has_confirms]
        then = [flow for flow in after.seen.flows if flow.queue == queue.name]
        unseen = [flow for flow in flows if flow.window() == 0]
        if not unseen or not then:
            continue
        was = max(flow.unconfirmed_max for flow in unseen)
        will = max(flow.unconfirmed_max for flow in then)
        if will > max(MORE * was, was + MORE_MESSAGES) or any(one.is_held() for one in then):
            owed = sum(_owed_at_least(flow) for flow in flows)
            return (
                f"publishers to {queue.name} would have {will} unconfirmed, and were never seen "
                f"with more than {was}; whether their programs go so far is not in the record"
            ), 1000 * owed / max(1.0, queue.out_per_s)
    return "", 0.0


def _owed_at_least(flow: Flow) -> int:
    return max(1, flow.unconfirmed_max)
