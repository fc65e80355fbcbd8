"""What a workload of the lab is, as data, and the ten workloads that the lab has.

A workload says who publishes, who consumes, what slows down, and when. One description runs in the
simulator and against a running broker. Times are shares of the measured stretch, so that the same
workload can be run for longer or shorter.

Rates are such that the machine itself is never the bottleneck (what is slow is slow by its service
time, the same for every strategy) and a second is a few thousand messages, so that a run in the
simulator takes about a second.
"""

from dataclasses import dataclass, replace
from typing import Final

PARK: Final = "park"
UNPARK: Final = "unpark"
ALARM: Final = "alarm"
KIB: Final = 1024
MIB: Final = 1024 * 1024
WARM_UP_S: Final = 0.5
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
class PublisherSpec:
    """`count` connections that do the same, with one channel each.

    rate_per_s: messages a second of each, in equal parts to its `targets`; size_bytes_*: of bodies,
    drawn evenly on a logarithmic scale; confirms_max: publishes to one target that may be
    unconfirmed, 0 for no confirms; burst: messages that fall due together.
    is_paced: what is not sent in time is sent later, and its latency counts from when it was due.
    Otherwise it is a program that publishes as fast as it may, up to its rate, and its latency
    counts from the write. is_persistent: its messages are.
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
    is_persistent: bool = False


@dataclass(frozen=True, slots=True)
class ConsumerSpec:
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
    commit_ms: it takes messages in groups, this often, as one that waits for a disk does;
    is_durable: what is persistent goes to the disk of the workload."""

    name: str
    fanout: str = ""
    service_us: float = 0.0
    service_us_per_kib: float = 0.0
    commit_ms: float = 0.0
    is_durable: bool = False

    def is_slow(self) -> bool:
        return self.service_us + self.service_us_per_kib + self.commit_ms > 0


@dataclass(frozen=True, slots=True)
class DiskSpec:
    """What durable queues are kept on: milliseconds of a sync, microseconds to write a KiB."""

    sync_ms: float
    write_us_per_kib: float


@dataclass(frozen=True, slots=True)
class WorkloadEvent:
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
    parked_bytes: what a connection may park, in those that do: small, as the depth mark is, because
    a run lasts seconds, in which tens of MiB would not fill;
    memory_high_bytes: memory mark on held bytes from the start on, 0 for far away; disk: what is
    durable is kept on, None for none."""

    name: str
    title: str
    queues: tuple[QueueSpec, ...]
    publishers: tuple[PublisherSpec, ...]
    consumers: tuple[ConsumerSpec, ...]
    events: tuple[WorkloadEvent, ...] = ()
    seconds: float = 3.0
    quick_seconds: float = 1.0
    warm_up_s: float = WARM_UP_S
    depth_bytes: int = 256 * KIB
    parked_bytes: int = 512 * KIB
    memory_high_bytes: int = 0
    disk: DiskSpec | None = None

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
        """A shorter run, warmed up less, with crowds of a tenth that are ten times as busy."""
        crowds = tuple(
            replace(one, count=one.count // 10, rate_per_s=one.rate_per_s * 10)
            if one.count >= CROWD
            else one
            for one in self.publishers
        )
        return replace(
            self,
            publishers=crowds,
            seconds=self.quick_seconds,
            warm_up_s=min(self.warm_up_s, WARM_UP_S),
        )

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


INNOCENT: Final = Target("", "innocent", is_innocent=True)
INNOCENT_PUBLISHER: Final = PublisherSpec("innocent", (INNOCENT,), 500, is_paced=True)
INNOCENT_CONSUMER: Final = ConsumerSpec("innocent", is_innocent=True)

SLOW_QUEUE: Final = Workload(
    "slow-queue",
    "a channel publishes to a slow queue and a fast one in turn; the slow one stops for a time",
    queues=(QueueSpec("slow", service_us=1000, commit_ms=5), QueueSpec("innocent")),
    publishers=(
        PublisherSpec(
            "alternating", (Target("", "slow"), INNOCENT), 2000, confirms_max=200, is_paced=True
        ),
        PublisherSpec("pressing", (Target("", "slow"),), 3000, count=2),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("slow"), INNOCENT_CONSUMER),
    events=(WorkloadEvent(0.2, PARK, "slow"), WorkloadEvent(0.4, UNPARK, "slow")),
)

SLOW_CONSUMER: Final = Workload(
    "slow-consumer",
    "a consumer takes a quarter of what is published to its queue; another pair beside it",
    queues=(QueueSpec("work"), QueueSpec("innocent")),
    publishers=(
        PublisherSpec("pressing", (Target("", "work"),), 2000, count=2),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("work", rate_per_s=1000, prefetch=50), INNOCENT_CONSUMER),
)

FAN_OUT: Final = Workload(
    "fan-out",
    "every publish goes to nine busy queues, one slower than the others",
    queues=(
        *(QueueSpec(f"out-{n}", "nine", service_us=700, commit_ms=5) for n in range(1, 9)),
        QueueSpec("out-9", "nine", service_us=1400, commit_ms=5),
        QueueSpec("innocent"),
    ),
    publishers=(PublisherSpec("fanning", (Target("nine", ""),), 1500), INNOCENT_PUBLISHER),
    consumers=(*(ConsumerSpec(f"out-{n}") for n in range(1, 10)), INNOCENT_CONSUMER),
    # Until the ninth is as full as it may be, the others need not wait for it.
    warm_up_s=4.0,
)

BURSTS: Final = Workload(
    "bursts",
    "four publishers send 400 messages at once, twice a second, to a queue that commits in groups",
    queues=(QueueSpec("bursty", service_us=50, commit_ms=20), QueueSpec("innocent")),
    publishers=(
        PublisherSpec("bursting", (Target("", "bursty"),), 800, count=4, burst=400, is_paced=True),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("bursty", prefetch=200), INNOCENT_CONSUMER),
    seconds=2.0,
)

THOUSAND: Final = Workload(
    "thousand",
    "a thousand publishers ask one queue for three times what it can take, most of it ten of them",
    queues=(QueueSpec("popular", service_us=250, commit_ms=5), QueueSpec("innocent")),
    publishers=(
        PublisherSpec("crowd", (Target("", "popular"),), 2, count=990, confirms_max=0),
        PublisherSpec("pressing", (Target("", "popular"),), 1200, count=10),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("popular", prefetch=500), INNOCENT_CONSUMER),
    seconds=2.0,
)

MIXED_SIZES: Final = Workload(
    "mixed-sizes",
    "bodies of 16 B to 1 MiB, small ones as often as large ones, to a queue slow by the byte",
    queues=(
        QueueSpec("mixed", service_us=100, service_us_per_kib=20, commit_ms=5),
        QueueSpec("innocent"),
    ),
    publishers=(
        PublisherSpec(
            "mixing", (Target("", "mixed"),), 800, count=3, size_bytes_lowest=16,
            size_bytes_highest=MIB,
        ),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("mixed"), INNOCENT_CONSUMER),
    depth_bytes=4 * MIB,
)  # fmt: skip

MEMORY_ALARM: Final = Workload(
    "memory-alarm",
    "the watermark is lowered below what a slow consumer's queue holds, until that has drained",
    queues=(QueueSpec("backlog"), QueueSpec("innocent")),
    publishers=(PublisherSpec("pressing", (Target("", "backlog"),), 4000), INNOCENT_PUBLISHER),
    consumers=(ConsumerSpec("backlog", rate_per_s=1500, prefetch=50), INNOCENT_CONSUMER),
    events=(WorkloadEvent(0.2, ALARM, limit_bytes=512 * KIB), WorkloadEvent(0.5, ALARM)),
)

DEEP_CHAIN: Final = Workload(
    "deep-chain",
    "four queues in a row, each worker publishes to the next; the last consumer is slow",
    queues=(*(QueueSpec(f"stage-{n}") for n in range(1, 5)), QueueSpec("innocent")),
    publishers=(
        PublisherSpec("feeding", (Target("", "stage-1"),), 2000, size_bytes_lowest=4 * KIB,
                   size_bytes_highest=4 * KIB),
        INNOCENT_PUBLISHER,
    ),
    consumers=(
        *(
            ConsumerSpec(f"stage-{n}", prefetch=50, forward_to=f"stage-{n + 1}")
            for n in range(1, 4)
        ),
        ConsumerSpec("stage-4", rate_per_s=250, prefetch=50),
        INNOCENT_CONSUMER,
    ),
    depth_bytes=128 * KIB,
    quick_seconds=1.5,
)  # fmt: skip

SLOW_DISK: Final = Workload(
    "slow-disk",
    "40 publishers of persistent messages, 100 unconfirmed each, and a disk of 15 ms a sync",
    queues=(QueueSpec("kept", is_durable=True), QueueSpec("innocent")),
    publishers=(
        PublisherSpec("keeping", (Target("", "kept"),), 2000, count=40, size_bytes_lowest=1000,
                   size_bytes_highest=1000, confirms_max=100, is_persistent=True),
        INNOCENT_PUBLISHER,
    ),
    consumers=(ConsumerSpec("kept", prefetch=1000, count=4), INNOCENT_CONSUMER),
    seconds=2.0,
    quick_seconds=0.5,
    depth_bytes=64 * MIB,
    disk=DiskSpec(sync_ms=15, write_us_per_kib=40),
)  # fmt: skip

SLOW_DISK_400: Final = replace(
    SLOW_DISK,
    name="slow-disk-400",
    title="the same with 400 unconfirmed each: more than the store takes at once",
    publishers=(replace(SLOW_DISK.publishers[0], confirms_max=400), INNOCENT_PUBLISHER),
)

WORKLOADS: Final = {
    one.name: one
    for one in (
        SLOW_QUEUE,
        SLOW_CONSUMER,
        FAN_OUT,
        BURSTS,
        THOUSAND,
        MIXED_SIZES,
        MEMORY_ALARM,
        DEEP_CHAIN,
        SLOW_DISK,
        SLOW_DISK_400,
    )
}
