"""What a workload of the lab is, as data: who publishes, who consumes, what slows down, and when.

One description runs in the simulator and against a running broker. Times are shares of the measured
stretch, so that the same workload can be run for longer or shorter.
"""

from dataclasses import dataclass, replace
from typing import Final

PARK: Final = "park"
UNPARK: Final = "unpark"
ALARM: Final = "alarm"
KIB: Final = 1024
MIB: Final = 1024 * 1024
CROWD: Final = 100
"""Connections of one kind from which on a quick run has fewer of them."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where publishes go. is_innocent: this traffic has nothing to do with what is slow, so nothing
    that happens to the rest should concern it."""

    exchange: str
    key: str
    is_innocent: bool = False


@dataclass(frozen=True, slots=True)
class Publishers:
    """`count` connections that do the same, with one channel each.

    rate_per_s: messages a second of each, in equal parts to its `targets`; size_bytes_*: of bodies,
    drawn evenly on a logarithmic scale; confirms_max: publishes to one target that may be
    unconfirmed, 0 for no confirms; burst: messages that fall due together.
    is_paced: what is not sent in time is sent later, and its latency counts from when it was due.
    Otherwise it is a program that publishes as fast as it may, up to its rate, and its latency
    counts from the write.
    """

    name: str
    targets: tuple[Target, ...]
    rate_per_s: float
    count: int = 1
    size_bytes_lowest: int = 1024
    size_bytes_highest: int = 1024
    confirms_max: int = 10_000
    burst: int = 1
    is_paced: bool = False


@dataclass(frozen=True, slots=True)
class Consumers:
    """`count` consumers of one queue. rate_per_s: how fast each works, 0 for at once; forward_to:
    queue each message is published to before it is acknowledged, "" for none."""

    queue: str
    rate_per_s: float = 0.0
    count: int = 1
    prefetch: int = 100
    forward_to: str = ""
    is_innocent: bool = False


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """fanout: exchange it is bound to, "" for none; service_us, service_us_per_kib: time it needs
    to take a message, as a queue does whose disk or replica is slow, 0 for no extra time;
    commit_ms: it takes messages in groups, this often, as one that waits for a disk does."""

    name: str
    fanout: str = ""
    service_us: float = 0.0
    service_us_per_kib: float = 0.0
    commit_ms: float = 0.0

    def is_slow(self) -> bool:
        return self.service_us + self.service_us_per_kib + self.commit_ms > 0


@dataclass(frozen=True, slots=True)
class Event:
    """at: share of the measured stretch, 0..1; what: PARK, UNPARK (`queue`) or ALARM (the memory
    watermark becomes limit_bytes of held bytes, 0 for far away)."""

    at: float
    what: str
    queue: str = ""
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Workload:
    """title: one line for people; seconds: of the measured stretch, quick_seconds: in a quick run;
    warm_up_s: before it; depth_bytes: depth mark of queues in profiles that have one;
    memory_high_bytes: memory mark on held bytes from the start on, 0 for far away."""

    name: str
    title: str
    queues: tuple[QueueSpec, ...]
    publishers: tuple[Publishers, ...]
    consumers: tuple[Consumers, ...]
    events: tuple[Event, ...] = ()
    seconds: float = 3.0
    quick_seconds: float = 1.0
    warm_up_s: float = 0.5
    depth_bytes: int = 256 * KIB
    memory_high_bytes: int = 0

    def innocent_queues(self) -> frozenset[str]:
        """Queues that only innocent traffic goes to."""
        return frozenset(one.queue for one in self.consumers if one.is_innocent)

    def has_innocents(self) -> bool:
        return any(target.is_innocent for one in self.publishers for target in one.targets)

    def alone(self) -> "Workload":
        """This workload with nothing but its innocent traffic."""
        publishers = []
        for one in self.publishers:
            targets = tuple(target for target in one.targets if target.is_innocent)
            if targets:
                rate = one.rate_per_s * len(targets) / len(one.targets)
                publishers.append(replace(one, targets=targets, rate_per_s=rate))
        return replace(
            self,
            name=f"{self.name}, innocent traffic alone",
            publishers=tuple(publishers),
            consumers=tuple(one for one in self.consumers if one.is_innocent),
            events=(),
        )

    def quick(self) -> "Workload":
        """A shorter run of it, with crowds of a tenth that are ten times as busy."""
        crowds = tuple(
            replace(one, count=one.count // 10, rate_per_s=one.rate_per_s * 10)
            if one.count >= CROWD
            else one
            for one in self.publishers
        )
        return replace(self, publishers=crowds, seconds=self.quick_seconds)

    def lasting(self, seconds: float) -> "Workload":
        """It with another length of its measured stretch."""
        return replace(self, seconds=seconds)

    def disturbance_s(self) -> tuple[float, float] | None:
        """When the first event happens and when the last one, in seconds since the start of the
        run; None without events. The first begins a disturbance, and the last ends it."""
        if not self.events:
            return None
        moments = [self.warm_up_s + event.at * self.seconds for event in self.events]
        return min(moments), max(moments)
