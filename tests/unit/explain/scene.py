"""One broker under load, as the windows of its actors: a slow disk, a slow consumer, an alarm."""

from typing import Final

from penstock.telemetry.actor_window import ActorWindow, BlockWindow
from penstock.telemetry.snapshots import Times

MS: Final = 1_000_000
S: Final = 1_000_000_000


def held(peer: str, ms: int, reason: str = "credit", stops: int = 1) -> BlockWindow:
    """A block of `ms` milliseconds, the longest hold being an equal part of it."""
    return BlockWindow(peer, reason, ms * MS, ms * MS, stops, ms * MS // max(1, stops))


def actor(
    name: str,
    times_ms: tuple[int, int, int, int] = (10_000, 0, 0, 0),
    *blocks: BlockWindow,
    numbers: dict[str, float] | None = None,
    rates: dict[str, float] | None = None,
    labels: dict[str, str] | None = None,
    since_ns: int | None = None,
) -> ActorWindow:
    """A window of this actor: idle, busy, blocked, waiting milliseconds, and who held it."""
    idle, busy, blocked, waiting = (ms * MS for ms in times_ms)
    return ActorWindow(
        name,
        name.partition(":")[0],
        window_ns=idle + busy + blocked + waiting,
        times=Times(idle, busy, blocked, waiting),
        blocked_ns=sum(block.ns for block in blocks),
        stops=sum(block.stops for block in blocks),
        longest_ns=max((block.longest_ns for block in blocks), default=0),
        since_ns=since_ns,
        blocks=blocks,
        numbers=numbers or {},
        rates=rates or {},
        labels=labels or {},
    )


def scene(*actors: ActorWindow) -> dict[str, ActorWindow]:
    return {window.actor: window for window in actors}


def slow_disk() -> dict[str, ActorWindow]:
    """web-7 and etl publish to /orders, whose store waits for the disk; web-9 is at ease."""
    return scene(
        actor(
            "conn:web-7",
            (3_500, 400, 6_100, 0),
            held("chan:web-7/1", 5_950, stops=182),
            held("alarm:memory", 150, "memory"),
            rates={"published": 4100},
            labels={
                "peer": "10.0.5.31:51544",
                "user": "shop",
                "client": "pika 1.4.4",
                "vhost": "/",
            },
        ),
        actor(
            "chan:web-7/1",
            (3_500, 400, 6_100, 0),
            held("queue:/orders", 5_900, stops=182),
            numbers={"credit_initial": 400, "credit_now": 0},
        ),
        actor("conn:etl", (7_000, 800, 2_200, 0), held("chan:etl/1", 2_200, stops=40)),
        actor("chan:etl/1", (7_000, 800, 2_200, 0), held("queue:/orders", 2_200, stops=40)),
        actor("conn:web-9", (9_800, 200, 0, 0), rates={"published": 12}),
        actor(
            "queue:/orders",
            (3_000, 1_200, 5_800, 0),
            held("store:/", 5_800, stops=100),
            numbers={
                "credit_initial:store:/": 4000,
                "credit_now:store:/": 0,
                "ready": 18_204,
                "bytes": 1.4e9,
                "debt:conn:web-7": 54,
                "debt:conn:import": 44,
                "debt:conn:x": 2,
            },
        ),
        actor("store:/", (100, 300, 0, 9_600), rates={"syncs": 60.0, "sync_ns": 60 * 8.1e6}),
    )


def slow_consumer() -> dict[str, ActorWindow]:
    """pub publishes to /events, whose only consumer acks after 1.4 s each."""
    return scene(
        actor("conn:pub", (4_000, 1_000, 5_000, 0), held("queue:/events", 5_000, stops=3)),
        actor(
            "queue:/events",
            (1_000, 500, 0, 8_500),
            numbers={
                "ready": 402_000,
                "consumers": 1,
                "prefetch": 20,
                "prefetch_full_share": 0.92,
            },
            rates={"published": 3100, "acked": 1900},
        ),
        actor(
            "consumer:spark@conn:sp",
            (1_000, 0, 0, 9_000),
            numbers={"prefetch": 20, "unacked": 20, "prefetch_full_share": 0.92},
            rates={"acked": 14.3},
        ),
    )
