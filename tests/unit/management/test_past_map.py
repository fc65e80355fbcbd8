"""The flow map of a record: the same picture as that of a running broker in that moment."""

from dataclasses import replace
from typing import Any

from penstock.management.pages.flow_map import FlowMap
from penstock.management.pages.past_map import past_map
from penstock.telemetry.actor_window import ActorWindow, BlockWindow
from penstock.telemetry.snapshots import Times

SECOND_NS = 1_000_000_000


def window(actor: str, kind: str, rate: float, held: float = 0.0, **more: Any) -> ActorWindow:
    """Ten seconds of an actor, of which it was held this share, by `by`."""
    by = more.pop("by", "")
    ns = round(held * 10 * SECOND_NS)
    blocks = (BlockWindow(by, "credit", ns),) if by else ()
    return ActorWindow(
        actor, kind, window_ns=10 * SECOND_NS, blocked_ns=ns, blocks=blocks,
        rates={"published": rate, "delivered": rate}, **more,
    )  # fmt: skip


def windows() -> dict[str, ActorWindow]:
    """etl is held by the disk, behind a channel that publishes to /events; web goes on; idle is
    connected."""
    found = [
        window("conn:etl", "conn", 5.0, 0.9, by="chan:etl/1"),
        window("chan:etl/1", "chan", 5.0, 0.9, by="store:/",
               numbers={"credit_initial:queue:/events": 400.0}),
        window("conn:web", "conn", 100.0),
        window("chan:web/1", "chan", 100.0, numbers={"credit_initial:queue:/orders": 400.0}),
        window("conn:idle", "conn", 0.0),
        window("chan:idle/1", "chan", 0.0),
        window("queue:/events", "queue", 5.0),
        window("queue:/orders", "queue", 100.0),
        window("store:/", "store", 0.0),
        window("consumers:/orders", "consumer", 100.0),
        replace(
            window("consumer:t@conn:worker", "consumer", 80.0, labels={"queue": "queue:/orders"},
                   numbers={"unacked": 20.0, "prefetch": 20.0, "prefetch_full_share": 0.4}),
            times=Times(0, 0, 0, 4 * SECOND_NS),
        ),
    ]  # fmt: skip
    return {one.actor: one for one in found}


def drawn() -> FlowMap:
    causes = [{"path": ["conn:etl", "chan:etl/1", "store:/"], "reason": "disk"}]
    return past_map(windows(), causes)


def test_who_moved_something_is_in_his_column_with_his_rate() -> None:
    found = {box.actor: box for box in drawn().boxes}
    assert {actor: box.column for actor, box in found.items()} == {
        "conn:etl": 0, "conn:web": 0, "chan:etl/1": 1, "chan:web/1": 1,
        "queue:/events": 2, "queue:/orders": 2, "store:/": 3, "consumer:t@conn:worker": 4,
    }  # fmt: skip
    assert found["conn:web"].numbers == "100/s" and "held 90 %" in found["conn:etl"].numbers
    assert found["consumer:t@conn:worker"].numbers == "80/s · full 40 %"


def test_the_way_to_the_root_cause_is_marked_and_what_was_held_is_dashed() -> None:
    found = drawn()
    assert [box.actor for box in found.boxes if box.is_root] == ["store:/"]
    marked = {(one.sender.actor, one.receiver.actor) for one in found.links if one.is_marked}
    assert marked == {("conn:etl", "chan:etl/1"), ("chan:etl/1", "store:/")}
    held = {(one.sender.actor, one.receiver.actor) for one in found.links if one.is_held}
    assert held == marked | {("queue:/orders", "consumer:t@conn:worker")}


def test_of_nothing_there_is_a_map() -> None:
    assert past_map({}, []).boxes == []
