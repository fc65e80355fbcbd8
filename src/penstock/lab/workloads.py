"""The eight workloads of the lab.

Rates are such that the machine itself is never the bottleneck (what is slow is slow by its service
time, the same for every strategy) and a second is a few thousand messages, so that a run in the
simulator takes about a second.
"""

from typing import Final

from penstock.lab.workload import (
    ALARM,
    KIB,
    MIB,
    PARK,
    UNPARK,
    Consumers,
    Event,
    Publishers,
    QueueSpec,
    Target,
    Workload,
)

INNOCENT: Final = Target("", "innocent", is_innocent=True)
INNOCENT_PUBLISHER: Final = Publishers("innocent", (INNOCENT,), 500, is_paced=True)
INNOCENT_CONSUMER: Final = Consumers("innocent", is_innocent=True)

SLOW_QUEUE: Final = Workload(
    "slow-queue",
    "a channel publishes to a slow queue and a fast one in turn; the slow one stops for a time",
    queues=(QueueSpec("slow", service_us=1000, commit_ms=5), QueueSpec("innocent")),
    publishers=(
        Publishers(
            "alternating", (Target("", "slow"), INNOCENT), 2000, confirms_max=200, is_paced=True
        ),
        Publishers("pressing", (Target("", "slow"),), 3000, count=2),
        INNOCENT_PUBLISHER,
    ),
    consumers=(Consumers("slow"), INNOCENT_CONSUMER),
    events=(Event(0.2, PARK, "slow"), Event(0.4, UNPARK, "slow")),
)

SLOW_CONSUMER: Final = Workload(
    "slow-consumer",
    "a consumer takes a quarter of what is published to its queue; another pair beside it",
    queues=(QueueSpec("work"), QueueSpec("innocent")),
    publishers=(Publishers("pressing", (Target("", "work"),), 2000, count=2), INNOCENT_PUBLISHER),
    consumers=(Consumers("work", rate_per_s=1000, prefetch=50), INNOCENT_CONSUMER),
)

FAN_OUT: Final = Workload(
    "fan-out",
    "every publish goes to nine busy queues, one slower than the others",
    queues=(
        *(QueueSpec(f"out-{n}", "nine", service_us=700, commit_ms=5) for n in range(1, 9)),
        QueueSpec("out-9", "nine", service_us=1400, commit_ms=5),
        QueueSpec("innocent"),
    ),
    publishers=(Publishers("fanning", (Target("nine", ""),), 1500), INNOCENT_PUBLISHER),
    consumers=(*(Consumers(f"out-{n}") for n in range(1, 10)), INNOCENT_CONSUMER),
)

BURSTS: Final = Workload(
    "bursts",
    "four publishers send 400 messages at once, twice a second, to a queue that commits in groups",
    queues=(QueueSpec("bursty", service_us=50, commit_ms=20), QueueSpec("innocent")),
    publishers=(
        Publishers("bursting", (Target("", "bursty"),), 800, count=4, burst=400, is_paced=True),
        INNOCENT_PUBLISHER,
    ),
    consumers=(Consumers("bursty", prefetch=200), INNOCENT_CONSUMER),
    seconds=2.0,
)

THOUSAND: Final = Workload(
    "thousand",
    "a thousand publishers ask one queue for three times what it can take, most of it ten of them",
    queues=(QueueSpec("popular", service_us=250, commit_ms=5), QueueSpec("innocent")),
    publishers=(
        Publishers("crowd", (Target("", "popular"),), 2, count=990, confirms_max=0),
        Publishers("pressing", (Target("", "popular"),), 1200, count=10),
        INNOCENT_PUBLISHER,
    ),
    consumers=(Consumers("popular", prefetch=500), INNOCENT_CONSUMER),
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
        Publishers(
            "mixing", (Target("", "mixed"),), 800, count=3, size_bytes_lowest=16,
            size_bytes_highest=MIB,
        ),
        INNOCENT_PUBLISHER,
    ),
    consumers=(Consumers("mixed"), INNOCENT_CONSUMER),
    depth_bytes=4 * MIB,
)  # fmt: skip

MEMORY_ALARM: Final = Workload(
    "memory-alarm",
    "the watermark is lowered below what a slow consumer's queue holds, until that has drained",
    queues=(QueueSpec("backlog"), QueueSpec("innocent")),
    publishers=(Publishers("pressing", (Target("", "backlog"),), 4000), INNOCENT_PUBLISHER),
    consumers=(Consumers("backlog", rate_per_s=1500, prefetch=50), INNOCENT_CONSUMER),
    events=(Event(0.2, ALARM, limit_bytes=512 * KIB), Event(0.5, ALARM)),
)

DEEP_CHAIN: Final = Workload(
    "deep-chain",
    "four queues in a row, each worker publishes to the next; the last consumer is slow",
    queues=(*(QueueSpec(f"stage-{n}") for n in range(1, 5)), QueueSpec("innocent")),
    publishers=(
        Publishers("feeding", (Target("", "stage-1"),), 2000, size_bytes_lowest=4 * KIB,
                   size_bytes_highest=4 * KIB),
        INNOCENT_PUBLISHER,
    ),
    consumers=(
        *(Consumers(f"stage-{n}", prefetch=50, forward_to=f"stage-{n + 1}") for n in range(1, 4)),
        Consumers("stage-4", rate_per_s=250, prefetch=50),
        INNOCENT_CONSUMER,
    ),
    depth_bytes=128 * KIB,
    quick_seconds=1.5,
)  # fmt: skip

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
    )
}
