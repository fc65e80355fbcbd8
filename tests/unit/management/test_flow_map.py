"""The flow map: who is in which column, what is marked, and that it stays small."""

from typing import Any

from penstock.management.pages.drawing import HEIGHT, WIDTH, heat, lines
from penstock.management.pages.flow_map import ROWS_MAX, FlowMap, flow_map


def edge(sender: str, receiver: str, is_blocked: bool = False) -> dict[str, Any]:
    return {
        "sender": sender,
        "receiver": receiver,
        "is_blocked": is_blocked,
        "in_flight_messages": 1,
    }


def publisher(name: str, rate: float, held: float = 0.0) -> dict[str, Any]:
    return {"name": name, "rate": rate, "blocked_share": held}


def queue(name: str, rate: float, held: float = 0.0) -> dict[str, Any]:
    return {"name": name, "in_rate": rate, "blocked_share": held}


def consumer(name: str, of: str, is_full: bool) -> dict[str, Any]:
    return {
        "connection": name,
        "tag": "t",
        "queue": of,
        "out_rate": 5.0,
        "held_share": 1.0 if is_full else 0.0,
        "unacked": 20,
        "prefetch": 20,
        "is_full": is_full,
    }


def drawn() -> FlowMap:
    """etl is held by the consumer of /events; web goes on; idle does nothing."""
    edges = [
        edge("conn:etl", "chan:etl/1", True),
        edge("chan:etl/1", "queue:/events", True),
        edge("conn:web", "chan:web/1"),
        edge("chan:web/1", "queue:/orders"),
        edge("conn:idle", "chan:idle/1"),
        edge("queue:/orders", "store:/"),
        edge("store:/", "disk"),
        edge("queue:/unused", "store:/"),
    ]
    top = {
        "publishers": [publisher("etl", 5, 0.9), publisher("web", 100), publisher("idle", 0)],
        "queues": [queue("/events", 5, 0.9), queue("/orders", 100), queue("/unused", 0)],
        "consumers": [consumer("spark", "/events", True), consumer("worker", "/orders", False)],
    }
    path = ["conn:etl", "chan:etl/1", "queue:/events", "consumers:/events"]
    return flow_map(edges, top, [{"path": path, "reason": "consumer"}])


def test_the_way_to_the_root_cause_is_marked_and_comes_first() -> None:
    found = drawn()
    marked = {box.actor for box in found.boxes if box.is_marked}
    assert marked == {"conn:etl", "chan:etl/1", "queue:/events", "consumer:t@conn:spark"}
    assert [box.name for box in found.boxes if box.is_root] == ["spark"]
    assert [box.name for box in found.boxes if box.column == 0] == ["etl", "web"]
    ways = {(link.sender.name, link.receiver.name) for link in found.links if link.is_marked}
    assert ways == {("etl", "etl/1"), ("etl/1", "/events"), ("/events", "spark")}
    assert "root cause" in next(box for box in found.boxes if box.is_root).numbers


def test_what_does_nothing_is_left_out() -> None:
    names = {box.name for box in drawn().boxes}
    assert names == {
        *("etl", "web", "etl/1", "web/1", "/events", "/orders", "store /", "spark", "worker"),
    }


def test_boxes_do_not_touch_and_lie_inside() -> None:
    found = drawn()
    places = {(box.x, box.y) for box in found.boxes}
    assert len(places) == len(found.boxes)
    assert all(box.x + 168 <= found.width and box.y + 38 <= found.height for box in found.boxes)
    widest = max(found.links, key=lambda link: link.width)
    assert widest.rate == 100


def test_a_thousand_publishers_are_a_few_boxes() -> None:
    edges = [edge(f"conn:c{i}", f"chan:c{i}/1") for i in range(1_000)]
    edges += [edge(f"chan:c{i}/1", "queue:/q", i == 7) for i in range(1_000)]
    top = {
        "publishers": [publisher(f"c{i}", i + 1.0, 0.5 if i == 7 else 0) for i in range(1_000)],
        "queues": [queue("/q", 500_000)],
        "consumers": [],
    }
    found = flow_map(edges, top, [])
    assert len(found.boxes) == 2 * (ROWS_MAX + 1) + 1
    assert found.boxes[0].name == "c7", "who is held comes first"
    others = [box for box in found.boxes if box.name == "990 others"]
    assert len(others) == 2
    total = sum(box.rate for box in found.boxes if box.column == 0)
    assert total == sum(range(1, 1_001))
    assert len(found.links) <= 4 * (ROWS_MAX + 1)


def test_nothing_is_a_map_too() -> None:
    found = flow_map([], {"publishers": [], "queues": [], "consumers": []}, [])
    assert (found.boxes, found.links) == ([], [])
    assert found.height > 0


def test_long_names_are_cut_in_the_middle() -> None:
    name = "a" * 40 + "z" * 40
    top = {"publishers": [publisher(name, 1)], "queues": [], "consumers": []}
    box = flow_map([edge(f"conn:{name}", f"chan:{name}/1")], top, []).boxes[0]
    assert len(box.short) <= 20 and box.short.startswith("aaa") and box.short.endswith("zzz")


def test_lines_go_from_ten_minutes_ago_to_now() -> None:
    points = [(600.0, {"a": 0.0}), (300.0, {"a": 5.0}), (0.0, {"a": 10.0, "b": 1.0})]
    found = lines(points, ["a", "b"])
    first, middle, last = found["lines"][0].split(" ")
    assert first == f"0.0,{HEIGHT:.1f}"
    assert middle.startswith(f"{WIDTH / 2:.1f},")
    assert last == f"{WIDTH:.1f},8.0"
    assert found["most"] == 10.0 and found["now"] == [10.0, 1.0] and found["oldest_s"] == 600.0
    # A share is drawn to its own top, and nothing at all is drawn as nothing.
    assert lines(points, ["b"], 1.0)["lines"][0].endswith(",8.0")
    assert lines([], ["a"]) == {"lines": [""], "most": 0, "now": [0.0], "oldest_s": 0.0}


def test_steps_of_colour() -> None:
    shares = (None, 0.0, 0.0005, 0.01, 0.05, 0.3, 0.6, 1.0)
    assert [heat(share) for share in shares] == [0, 0, 0, 1, 2, 3, 4, 4]
