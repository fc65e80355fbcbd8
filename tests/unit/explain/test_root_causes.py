"""The label of a root follows what the root itself was doing."""

import pytest

from penstock.explain.blame import Stay, Step
from penstock.explain.consumer_causes import ack_time_ns, consumer_detail
from penstock.explain.root_causes import dominant_state, name_cause, sync_time_ns
from penstock.telemetry.actor_window import ActorWindow
from tests.unit.explain.scene import actor, held, scene


def stay(root: str, reason: str = "credit", *, is_circle: bool = False) -> Stay:
    return Stay(root, 10, (Step("chan:a/1", root, reason, 10),), is_circle)


def queue(times_ms: tuple[int, int, int, int], **numbers: float) -> ActorWindow:
    return actor("queue:/q", times_ms, numbers=numbers)


IDLE = (100, 10, 0, 10)
BUSY = (10, 100, 0, 10)
WAITING = (10, 10, 0, 100)
NONE = "no consumer"


def alarm(resource: str, used: float, limit: float) -> ActorWindow:
    return actor(f"alarm:{resource}", numbers={"used_bytes": used, "limit_bytes": limit})


@pytest.mark.parametrize(
    ("window", "reason", "label", "detail"),
    [
        (queue(BUSY), "credit", "cpu", "busy 83 %"),
        (queue(WAITING, consumers=0, ready=71_000), "credit", "consumer", f"{NONE}; 71 000 ready"),
        (
            queue(WAITING, consumers=2, socket_blocked=0.5),
            "credit",
            "socket",
            "the socket of its 2 consumers was full 50 % of the time",
        ),
        (
            queue(WAITING, consumers=2, prefetch_full_share=1.0),
            "credit",
            "consumer",
            "prefetch window of its 2 consumers full 100 % of the time",
        ),
        (
            actor("queue:/q", WAITING, numbers={"ready": 5}, rates={"acked": 14.0}),
            "credit",
            "consumer",
            "consumers take 14/s; 5 ready",
        ),
        (queue(WAITING), "credit", "consumer", "its consumers are slower than its publishers"),
        (queue(IDLE, consumers=0, ready=5), "credit", "consumer", f"{NONE}; 5 ready"),
        (queue(IDLE, consumers=1), "credit", "credit", "idle 83 %"),
        (queue(BUSY, consumers=0), "depth", "consumer", NONE),
        (queue(IDLE), "pending", "pending", "idle 83 %"),
        (queue((0, 0, 0, 0)), "credit", "credit", ""),
        (actor("store:/", WAITING), "credit", "disk", "busy 8 %, waiting 83 %"),
        (
            actor("store:/", WAITING, rates={"syncs": 60.0, "sync_ns": 60 * 8.1e6}),
            "credit",
            "disk",
            "one sync 8.1 ms, busy 8 %, waiting 83 %",
        ),
        (actor("store:/", BUSY), "credit", "cpu", "busy 83 %"),
        (actor("conn:b", WAITING), "credit", "socket", "waiting 83 %"),
        (actor("chan:b/1", WAITING), "credit", "waiting", "waiting 83 %"),
        (alarm("memory", 2e9, 1e9), "memory", "alarm:memory", "2.0 GB used, limit 1.0 GB"),
        (alarm("disk", 4e7, 5e7), "disk", "alarm:disk", "40.0 MB free, limit 50.0 MB"),
        (actor("alarm:memory"), "memory", "alarm:memory", ""),
        (
            actor("consumer:c@conn:a", WAITING, numbers={"prefetch_full_share": 1.0}),
            "prefetch",
            "consumer",
            "prefetch window full 100 %: it acks nothing",
        ),
        (
            actor("consumers:/q", WAITING, numbers={"consumers": 2, "flow_paused": 0.5}),
            "depth",
            "flow",
            "paused by channel.flow 50 % of the time",
        ),
        (
            actor("consumers:/q", WAITING, numbers={"consumers": 0, "ready": 7}),
            "depth",
            "consumer",
            f"{NONE}; 7 ready",
        ),
        (
            actor("user:shop@/", numbers={"debt_bytes": 3e7, "high_bytes": 2.5e7}),
            "debt",
            "debt",
            "30.0 MB outstanding, limit 25.0 MB",
        ),
        (
            actor("node", numbers={"debt_messages": 120, "high_messages": 100}),
            "debt",
            "debt",
            "120 messages outstanding, limit 100 messages",
        ),
        (
            actor("rate:/q", numbers={"messages_per_s": 500, "bytes_per_s": 1e6}),
            "rate",
            "rate",
            "limit 500/s and 1.0 MB/s",
        ),
        (
            actor("chan:a/1"),
            "flow",
            "flow",
            "it publishes although it was told channel.flow(active=false)",
        ),
    ],
)
def test_the_cause_at_a_root(window: ActorWindow, reason: str, label: str, detail: str) -> None:
    assert name_cause(stay(window.actor, reason), scene(window)) == (label, detail)


@pytest.mark.parametrize(
    ("root", "reason", "label"),
    [
        ("alarm:memory", "memory", "alarm:memory"),
        ("socket:a", "socket", "socket"),
        ("node", "memory", "alarm:memory"),
        ("client", "prefetch", "consumer"),
        ("others", "others", "others"),
        ("consumers:/q", "depth", "consumer"),
        ("rate:conn:a", "rate", "rate"),
        ("gone", "", "unknown"),
        ("gone", "pending:raft", "pending"),
    ],
)
def test_a_root_without_numbers_has_the_label_of_its_gate(
    root: str, reason: str, label: str
) -> None:
    assert name_cause(stay(root, reason), {})[0] == label


def test_a_circle_is_called_one() -> None:
    assert name_cause(stay("queue:/q", is_circle=True), {}) == (
        "circle",
        "queue /q waits for itself",
    )


def test_debt_names_where_it_is() -> None:
    windows = scene(
        actor("conn:a"),
        actor("queue:/q", numbers={"debt:conn:a": 30}),
        actor("queue:/r", numbers={"debt:conn:a": 1200, "debt:conn:b": 5}),
    )
    assert name_cause(stay("conn:a", "debt"), windows) == (
        "debt",
        "1 230 messages outstanding, 1 200 of them in queue /r",
    )
    assert name_cause(stay("conn:b", "debt"), scene(actor("conn:b"))) == ("debt", "")


def test_a_held_actor_is_idle_for_that_reason() -> None:
    assert dominant_state(actor("queue:/q", (100, 10, 100, 0), held("store:/", 100))) == "busy"
    assert dominant_state(actor("queue:/q", (100, 10, 0, 0))) == "idle"
    assert dominant_state(actor("queue:/q", (100, 0, 100, 0), held("store:/", 100))) == "idle"
    assert dominant_state(actor("queue:/q", (0, 0, 0, 0))) == ""


def test_a_consumer_by_littles_law() -> None:
    window = actor("consumer:c@conn:a", numbers={"unacked": 20}, rates={"acked": 10.0})
    assert ack_time_ns(window) == 2_000_000_000
    assert consumer_detail(window) == ("took 10/s, 20 in flight")
    stuck = actor("consumer:c@conn:a", numbers={"socket_blocked": 1.0})
    assert consumer_detail(stuck) == (
        "socket full 100 %: the client does not read what is written to it"
    )


@pytest.mark.parametrize(
    ("ms", "stops", "label"),
    [(1_000, 10_000, "cpu"), (1_000, 501, "cpu"), (1_000, 500, "credit"), (1_000, 1, "credit")],
)
def test_an_idle_root_of_short_holds_waits_for_the_processor(
    ms: int, stops: int, label: str
) -> None:
    """Holds of less than 2 ms are turns of the scheduler: the loop works for somebody else."""
    victim = actor("conn:a", (0, 0, ms, 0), held("chan:a/1", ms, stops=stops))
    root = actor("chan:a/1", IDLE)
    path = (Step("conn:a", "chan:a/1", "credit", ms),)
    found, _ = name_cause(Stay("chan:a/1", ms, path, False), scene(victim, root))
    assert found == label


def test_the_time_of_a_sync_is_the_mean_of_the_window() -> None:
    """What has ended in it, and only where nothing has, what is under way."""
    ended = actor("store:/", rates={"syncs": 4.0, "sync_ns": 4 * 15e6}, numbers={"sync_now_ns": 9})
    assert sync_time_ns(ended) == 15_000_000
    under_way = actor("store:/", rates={"syncs": 0.0, "sync_ns": 0.0}, numbers={"sync_now_ns": 7e9})
    assert sync_time_ns(under_way) == 7_000_000_000
    assert sync_time_ns(actor("store:/")) == 0
