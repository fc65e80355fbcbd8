"""The forecast of the memory alarm: piecewise, as queues come to where they stop growing."""

import pytest

from penstock.explain.asking import explain_memory, render_memory
from penstock.explain.memory_forecast import (
    BASE,
    PAGES_ABOVE,
    PAGING_BUDGET,
    PEAK,
    MemoryForecast,
    forecast,
)
from penstock.telemetry.actor_window import ActorWindow
from tests.unit.explain.scene import actor, scene

MB = 1e6
SPAN_S = 10.0
Numbers = dict[str, float]


def node(held: float, used: float, limit: float = 1000 * MB, **more: float) -> Numbers:
    return {"memory_bytes": held, "used_bytes": used, "limit_bytes": limit, **more}


def scenes(
    now: dict[str, Numbers], then: dict[str, Numbers]
) -> tuple[dict[str, ActorWindow], dict[str, ActorWindow]]:
    """Of a node, and queues by the rest of their names."""
    made = [
        scene(*(actor(name, numbers=numbers) for name, numbers in at.items())) for at in (now, then)
    ]
    return made[0], made[1]


def foretold(now: dict[str, Numbers], then: dict[str, Numbers]) -> MemoryForecast:
    return forecast(*scenes(now, then), SPAN_S)


def test_a_steady_ramp() -> None:
    found = foretold({"node": node(200 * MB, 300 * MB)}, {"node": node(100 * MB, 200 * MB)})
    assert found.growth_bytes_per_s == 10 * MB
    assert found.alarm_in_s == pytest.approx(70)


def test_what_the_system_counts_more_is_counted_up_to_a_bound() -> None:
    """200 bytes more are used for each 160 that are held: room for four fifths."""
    found = foretold({"node": node(180 * MB, 300 * MB)}, {"node": node(100 * MB, 200 * MB)})
    assert found.alarm_in_s == pytest.approx(70)
    wild = foretold({"node": node(110 * MB, 300 * MB)}, {"node": node(100 * MB, 200 * MB)})
    assert wild.alarm_in_s == pytest.approx(700 / 1.3), "what grows is something else"


def test_what_was_freed_is_room() -> None:
    now = node(200 * MB, 700 * MB, **{BASE: 100 * MB, PEAK: 550 * MB})
    found = foretold({"node": now}, {"node": node(100 * MB, 700 * MB)})
    assert found.alarm_in_s == pytest.approx((300 + 350) / 10)
    now[PEAK] = 900 * MB
    found = foretold({"node": now}, {"node": node(100 * MB, 700 * MB)})
    assert found.alarm_in_s == pytest.approx((300 + 400) / 10), "no more than there is"
    now[PEAK] = 200 * MB
    found = foretold({"node": now}, {"node": node(100 * MB, 700 * MB)})
    assert found.alarm_in_s == pytest.approx(30), "never held, so it is used for something"


def queue(memory: float, whole: float, **more: float) -> Numbers:
    return {"memory_bytes": memory, "bytes": whole, **more}


def test_a_queue_that_comes_to_its_depth_mark_grows_no_more() -> None:
    """Two grow at 5 MB/s each; one is held in 20 s."""
    now = {
        "node": node(200 * MB, 300 * MB),
        "queue:/a": queue(100 * MB, 100 * MB, depth_bytes=200 * MB),
        "queue:/b": queue(100 * MB, 100 * MB),
    }
    then = {
        "node": node(100 * MB, 200 * MB),
        "queue:/a": queue(50 * MB, 50 * MB),
        "queue:/b": queue(50 * MB, 50 * MB),
    }
    assert foretold(now, then).alarm_in_s == pytest.approx(20 + (700 - 200) / 5)
    now["queue:/b"]["depth_bytes"] = 300 * MB
    found = foretold(now, then)
    assert (found.alarm_in_s, found.stops_at) == (None, "depth")
    now["node"]["limit_bytes"] = 480 * MB
    assert foretold(now, then).alarm_in_s == pytest.approx(18), "before either is"


def test_shared_messages_count_in_part_and_reach_the_mark_whole() -> None:
    """Ten queues with the same messages: each is at its mark when it has 100 MB, a tenth of which
    is its own."""
    now = {"node": node(50 * MB, 150 * MB)}
    then = {"node": node(40 * MB, 140 * MB)}
    for number in range(10):
        name = f"queue:/{number}"
        now[name] = queue(5 * MB, 50 * MB, depth_bytes=100 * MB)
        then[name] = queue(4 * MB, 40 * MB)
    found = foretold(now, then)
    assert (found.growth_bytes_per_s, found.alarm_in_s, found.stops_at) == (1 * MB, None, "depth")


def test_queues_that_page_stop_each_for_itself_and_all_together() -> None:
    now = {
        "node": node(200 * MB, 300 * MB, **{PAGING_BUDGET: 500 * MB}),
        "queue:/a": queue(200 * MB, 200 * MB, **{PAGES_ABOVE: 250 * MB}),
    }
    then = {"node": node(100 * MB, 200 * MB), "queue:/a": queue(100 * MB, 100 * MB)}
    found = foretold(now, then)
    assert (found.alarm_in_s, found.stops_at) == (None, "paging")
    now["queue:/a"][PAGES_ABOVE] = 5000 * MB
    found = foretold(now, then)
    assert (found.alarm_in_s, found.stops_at) == (None, "paging"), "the budget of all"
    now["node"][PAGING_BUDGET] = 2000 * MB
    assert foretold(now, then).alarm_in_s == pytest.approx(70)


@pytest.mark.parametrize("held", [100 * MB, 90 * MB])
def test_without_growth_there_is_no_forecast(held: float) -> None:
    found = foretold({"node": node(held, 300 * MB)}, {"node": node(100 * MB, 300 * MB)})
    assert found.alarm_in_s is None and found.stops_at == ""
    assert forecast({}, {}, SPAN_S) == MemoryForecast()


def test_the_words() -> None:
    now = {
        "node": node(200 * MB, 310 * MB, **{BASE: 100 * MB, PAGING_BUDGET: 500 * MB}),
        "queue:/a": queue(200 * MB, 200 * MB, **{PAGES_ABOVE: 250 * MB}),
    }
    then = {"node": node(100 * MB, 200 * MB), "queue:/a": queue(100 * MB, 100 * MB)}
    answer = explain_memory(*scenes(now, then), SPAN_S)
    assert (answer.base_bytes, answer.alarm_in_s, answer.stops_at) == (100 * MB, None, "paging")
    said = render_memory(answer)
    assert "messages hold     200.0 MB; the broker itself 100.0 MB; 10.0 MB is kept free" in said
    assert "grows by 10.0 MB/s, until the queues that grow go on to the disk: no alarm" in said
    del now["queue:/a"][PAGES_ABOVE]
    said = render_memory(explain_memory(*scenes(now, then), SPAN_S))
    assert "grows by 10.0 MB/s: the alarm in about 62.7 s at this rate" in said
