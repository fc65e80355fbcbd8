"""The history of windows, which keeps changes only, against one that keeps every snapshot."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.telemetry.snapshots import ActorSnapshot, Times, per_second
from penstock.telemetry.window import WindowHistory

S = 1_000_000_000
STATES = ("idle", "busy", "blocked", "waiting", "gone")


@given(
    lives=st.lists(
        st.lists(st.sampled_from(STATES), min_size=1, max_size=30), min_size=1, max_size=4
    ),
    snapshots_max=st.integers(2, 12),
    window_s=st.integers(1, 15),
)
def test_windows_are_those_of_a_full_history(
    lives: list[list[str]], snapshots_max: int, window_s: int
) -> None:
    """lives: what each actor did in each second; "gone" ends one life and begins another."""
    history = WindowHistory(snapshots_max)
    full: list[dict[str, ActorSnapshot]] = []
    spent = [dict.fromkeys(STATES, 0) for _ in lives]
    started = [0 for _ in lives]
    for second in range(max(len(life) for life in lives)):
        now: dict[str, ActorSnapshot] = {}
        for index, life in enumerate(lives):
            state = life[second] if second < len(life) else "idle"
            if state == "gone":
                spent[index] = dict.fromkeys(STATES, 0)
                started[index] = (second + 1) * S
                continue
            spent[index][state] += S
            mine = spent[index]
            now[f"a{index}"] = ActorSnapshot(
                f"a{index}",
                "queue",
                started_ns=started[index],
                times=Times(mine["idle"], mine["busy"], mine["blocked"], mine["waiting"]),
                numbers={"published": float(mine["busy"])},
            )
        full.append(now)
        history.push((second + 1) * S, now)
        kept = full[-snapshots_max:]
        windows = history.over(window_s)
        assert windows.keys() == now.keys()
        start = max(0, len(kept) - 1 - window_s)
        for actor, window in windows.items():
            new = now[actor]
            old = kept[start].get(actor) if len(kept) > 1 else None
            base, published = Times(0, 0, 0, 0), new.numbers["published"]
            if old is not None and old.started_ns == new.started_ns:
                base, published = old.times, published - old.numbers["published"]
            assert window.times.busy_ns == new.times.busy_ns - base.busy_ns
            assert window.times.idle_ns == new.times.idle_ns - base.idle_ns
            assert window.times.waiting_ns == new.times.waiting_ns - base.waiting_ns
            assert window.window_ns == new.times.total_ns() - base.total_ns()
            assert window.rates == {"published": per_second(published, window.window_ns)}


def test_an_idle_actor_is_kept_once() -> None:
    history = WindowHistory(61)
    for second in range(1, 200):
        snapshot = ActorSnapshot("conn:a", "conn", times=Times(second * S, 0, 0, 0))
        history.push(second * S, {"conn:a": snapshot})
    assert len(dict(history.trails())["conn:a"]) == 1
    assert history.over(10)["conn:a"].times.idle_ns == 10 * S
