"""Blame is conserved: every blocked nanosecond of a subject ends at exactly one root."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.explain.blame import PATH_ACTORS_MAX, follow, split, upstream
from penstock.telemetry.actor_window import ActorWindow, BlockWindow
from tests.unit.explain.scene import MS, actor, held, scene, slow_disk

NAMES = ["a", "b", "c", "d", "e"]
# Some peers have no window of their own: alarms, sockets, actors that have just gone.
PEERS = st.sampled_from([*NAMES, "alarm:memory", ""])
BLOCKS = st.lists(st.tuples(PEERS, st.integers(0, 10**10)), max_size=4, unique_by=lambda b: b[0])
GRAPHS = st.fixed_dictionaries(dict.fromkeys(NAMES, BLOCKS))


def windows_of(graph: dict[str, list[tuple[str, int]]]) -> dict[str, ActorWindow]:
    return {
        name: ActorWindow(
            name,
            "queue",
            blocked_ns=sum(ns for _, ns in blocks),
            blocks=tuple(BlockWindow(peer, "credit", ns) for peer, ns in blocks),
        )
        for name, blocks in graph.items()
    }


@given(GRAPHS)
def test_blame_is_conserved_in_any_graph(graph: dict[str, list[tuple[str, int]]]) -> None:
    windows = windows_of(graph)
    for subject, window in windows.items():
        stays = follow(subject, windows)
        assert sum(stay.ns for stay in stays) == window.blocked_ns
        assert [stay.ns for stay in stays] == sorted((s.ns for s in stays), reverse=True)
        for stay in stays:
            assert stay.ns > 0
            assert len(stay.path) <= PATH_ACTORS_MAX


@given(GRAPHS)
def test_a_path_leads_from_the_subject_to_the_root_without_repetition(
    graph: dict[str, list[tuple[str, int]]],
) -> None:
    windows = windows_of(graph)
    for stay in follow("a", windows):
        who = [step.who for step in stay.path]
        assert who[0] == "a"
        assert [step.peer for step in stay.path[:-1]] == who[1:]
        assert stay.path[-1].peer == stay.root
        assert len(set(who)) == len(who)
        assert stay.is_circle == (stay.root in who[:-1])
        assert set(who) - {stay.root} <= upstream(stay.root, windows)
        sizes = [step.ns for step in stay.path]
        assert sizes == sorted(sizes, reverse=True), "a part is not larger than the whole"


@given(st.integers(0, 10**18), st.lists(st.integers(0, 10**12), max_size=9))
def test_split_is_exact_and_fair(total: int, weights: list[int]) -> None:
    parts = split(total, weights)
    whole = sum(weights)
    assert sum(parts) == (total if whole else 0)
    for part, weight in zip(parts, weights, strict=bool(parts)):
        assert abs(part * whole - total * weight) < whole


def test_a_slow_stage_is_blamed_for_nearly_everything() -> None:
    stays = follow("conn:web-7", slow_disk())
    first = stays[0]
    assert (first.root, first.ns) == ("store:/", 5_800 * MS)
    assert [step.who for step in first.path] == ["conn:web-7", "chan:web-7/1", "queue:/orders"]
    assert {stay.root: stay.ns for stay in stays[1:]} == {
        "alarm:memory": 150 * MS,
        "queue:/orders": 100 * MS,
        "chan:web-7/1": 50 * MS,
    }


def test_a_circle_ends_where_it_closes() -> None:
    windows = scene(
        actor("a", (0, 0, 100, 0), held("b", 100)), actor("b", (0, 0, 100, 0), held("a", 100))
    )
    [stay] = follow("a", windows)
    assert (stay.root, stay.is_circle, stay.ns) == ("a", True, 100 * MS)


def test_an_actor_that_holds_itself_is_a_root() -> None:
    windows = scene(
        actor("a", (0, 0, 100, 0), held("b", 100)),
        actor("b", (0, 0, 100, 0), held("", 100, "depth")),
    )
    [stay] = follow("a", windows)
    assert (stay.root, stay.is_circle, stay.path[-1].reason) == ("b", False, "depth")


def test_a_long_chain_ends_at_the_bound() -> None:
    names = [f"n{number:02}" for number in range(PATH_ACTORS_MAX + 5)]
    windows = scene(
        *(
            actor(name, (0, 0, 100, 0), held(peer, 100))
            for name, peer in zip(names, [*names[1:], "end"], strict=True)
        )
    )
    [stay] = follow("n00", windows)
    assert (stay.root, len(stay.path)) == (names[PATH_ACTORS_MAX], PATH_ACTORS_MAX)


def test_many_small_branches_do_not_explode() -> None:
    """30 peers a stage, 8 stages deep, have 30^8 paths; those under 1/200 end early."""
    stages = 8
    names = [[f"s{stage}n{number}" for number in range(30)] for stage in range(stages)]
    windows = scene(actor("top", (0, 0, 3_000, 0), *(held(peer, 100) for peer in names[0])))
    for stage in range(stages - 1):
        below = [held(peer, 100) for peer in names[stage + 1]]
        windows |= scene(*(actor(name, (0, 0, 3_000, 0), *below) for name in names[stage]))
    stays = follow("top", windows)
    assert sum(stay.ns for stay in stays) == 3_000 * MS
    assert len(stays) == 30 * 30


def test_who_is_not_there_was_not_blocked() -> None:
    assert follow("nobody", {}) == []
    assert follow("conn:web-9", slow_disk()) == []
