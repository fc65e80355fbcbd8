"""Laws of the root-cause sweep: the books balance, to the nanosecond, for any wait-for graph."""

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.blame.blame import HELD_KINDS, QUEUES, cause_of, held_kinds
from penstock.spark.report.promises import moved
from penstock.spark.report.recommend import recommend
from penstock.spark.report.summary import TableSource, summarise
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import BlameRow, DepthRow, Tables
from tests.spark.oracle_blame import Edge, sweep
from tests.spark.oracle_intervals import clip, held_ns

ACTORS = ("conn:A", "conn:B", "chan:A/1", "queue:/q", "queue:/r", "consumers:/q", "consumer:c@A")
MEMBERS = {"consumers:/q": ("consumer:b@B", "consumer:c@A")}
S = 1_000_000_000
PEERS = (*ACTORS, "alarm:memory", "store:/", "socket:B", "mystery:1")

times = st.integers(0, 200)
edges = st.lists(
    st.builds(
        lambda actor, peer, reason, start, length: Edge(actor, peer, reason, start, start + length),
        st.sampled_from(ACTORS),
        st.sampled_from(PEERS),
        st.sampled_from(("credit", "depth")),
        times,
        st.integers(0, 60),
    ),
    max_size=14,
)


def by_victim(found: list[Edge]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for key, blamed_ns in sweep(found, {}).items():
        sums[key.victim] = sums.get(key.victim, 0) + blamed_ns
    return sums


@given(edges)
def test_blame_of_a_victim_is_exactly_the_time_it_was_held(found: list[Edge]) -> None:
    assert by_victim(found) == held_ns(found)


@given(edges)
def test_blame_is_never_zero_or_negative(found: list[Edge]) -> None:
    assert all(blamed_ns > 0 for blamed_ns in sweep(found, {}).values())


@given(edges, st.integers(1, 50))
def test_buckets_hold_all_the_time_and_no_bucket_more_than_its_length(
    found: list[Edge],
    bucket_ns: int,
) -> None:
    whole = held_ns(found)
    sums: dict[str, int] = {}
    for cut in clip(found, bucket_ns).values():
        for victim, blamed_ns in by_victim(cut).items():
            assert blamed_ns <= bucket_ns
            sums[victim] = sums.get(victim, 0) + blamed_ns
    assert sums == whole


def followed(
    graph: dict[str, list[str]], actor: str, share: Fraction, path: tuple[str, ...]
) -> Iterator[tuple[str, Fraction]]:
    """The rule as it is written: from peer to peer, in equal parts, until nobody is held."""
    nexts = sorted(graph.get(actor, ()))
    if actor.startswith("consumers:") and not nexts:
        nexts = [one for one in MEMBERS.get(actor, ()) if one in graph]
    if not nexts:
        yield actor, share
    for peer in nexts:
        if peer in path:
            yield peer, share / len(nexts)
        else:
            yield from followed(graph, peer, share / len(nexts), (*path, peer))


@given(edges)
def test_every_moment_is_charged_by_the_graph_of_that_moment(found: list[Edge]) -> None:
    found = [one._replace(start_ns=one.start_ns * S, end_ns=one.end_ns * S) for one in found]
    moments = sorted({one.start_ns for one in found} | {one.end_ns for one in found})
    expected: dict[tuple[str, str], Fraction] = {}
    for start_ns, end_ns in pairwise(moments):
        graph: dict[str, list[str]] = {}
        for one in found:
            if one.start_ns <= start_ns < one.end_ns and one.peer not in graph.get(one.actor, ()):
                graph.setdefault(one.actor, []).append(one.peer)
        for victim in graph:
            if not victim.startswith("consumers:"):
                for root, share in followed(graph, victim, Fraction(end_ns - start_ns), (victim,)):
                    expected[victim, root] = expected.get((victim, root), Fraction(0)) + share
    charged: dict[tuple[str, str], int] = {}
    for key, blamed_ns in sweep(found, MEMBERS).items():
        charged[key.victim, key.root] = charged.get((key.victim, key.root), 0) + blamed_ns
    assert charged.keys() <= expected.keys()
    for pair, share in expected.items():
        # A nanosecond at each branch of each graph, and there are not more than these.
        assert abs(charged.get(pair, 0) - share) < len(moments) * 64


def test_a_chain_is_charged_to_its_end() -> None:
    found = [
        Edge("conn:A", "chan:A/1", "credit", 0, 100),
        Edge("chan:A/1", "queue:/q", "credit", 10, 100),
        Edge("queue:/q", "consumers:/q", "depth", 20, 100),
    ]
    blame = {(key.victim, key.root): value for key, value in sweep(found, {}).items()}
    assert blame["conn:A", "chan:A/1"] == 10
    assert blame["conn:A", "queue:/q"] == 10
    assert blame["conn:A", "consumers:/q"] == 80


def test_several_peers_share_equally() -> None:
    found = [
        Edge("conn:A", "alarm:memory", "memory", 0, 101),
        Edge("conn:A", "chan:A/1", "credit", 0, 101),
    ]
    blame = {key.root: value for key, value in sweep(found, {}).items()}
    assert blame == {"alarm:memory": 51, "chan:A/1": 50}


def test_a_group_leads_to_those_of_its_members_that_are_held() -> None:
    found = [
        Edge("queue:/q", "consumers:/q", "depth", 0, 10),
        Edge("consumer:a@conn:W", "socket:W", "socket", 0, 10),
    ]
    members = {"consumers:/q": ("consumer:a@conn:W", "consumer:b@conn:V")}
    blame = {(key.victim, key.root): key.cause for key in sweep(found, members)}
    assert blame["queue:/q", "socket:W"] == "slow reader"


def test_a_full_prefetch_window_ends_the_chain_at_the_consumer() -> None:
    found = [Edge("consumer:a@conn:W", "client:W", "prefetch", 0, 10)]
    (key,) = sweep(found, {})
    assert (key.root, key.cause) == ("consumer:a@conn:W", "slow consumers")


def test_a_cycle_shows_as_one() -> None:
    found = [Edge("chan:A/1", "queue:/q", "", 0, 10), Edge("queue:/q", "chan:A/1", "", 0, 10)]
    assert {key.cause for key in sweep(found, {})} == {"cycle"}


def test_causes_have_names() -> None:
    assert cause_of("alarm:disk") == "disk alarm"
    assert cause_of("store:/") == "disk"
    assert cause_of("mystery:1") == "unknown"


def test_a_stream_that_waits_for_a_reader_group_has_a_cause() -> None:
    """And so has a connection that waits for memory for messages that have come in part."""
    found = [
        Edge("chan:A/1", "queue:/s", "credit", 0, 9),
        Edge("queue:/s", "group:minutes@/s", "lag", 0, 9),
        Edge("conn:B", "node", "unfinished", 0, 9),
    ]
    causes = {key.victim: (key.root, key.cause) for key in sweep(found, {})}
    assert causes["chan:A/1"] == ("group:minutes@/s", "slow reader group")
    assert causes["conn:B"] == ("node", "unfinished messages")
    rows = tuple(
        BlameRow(0, key.victim, key.root, key.cause, key.path, blamed_ns)
        for key, blamed_ns in sweep(found, {}).items()
    )
    tables = Tables(*([()] * len(Tables._fields)))._replace(root_cause=rows)
    summary = summarise(tables, RunDescription(), TableSource("", 3, 0, 0, 0))
    assert summary.explained_share == 1.0
    assert all("penstock why" not in one.advice for one in recommend(tables, S))


SLOW = "consumer:billing@conn:spark"


def blame(victim: str, seconds: int) -> BlameRow:
    return BlameRow(0, victim, SLOW, "slow consumers", f"{victim} → {SLOW}", seconds * S)


def tables(*rows: BlameRow) -> Tables:
    return Tables((), rows, (), (), (), (), (), (), ())


def test_publishers_come_first_unless_queues_were_stopped_for_longer() -> None:
    assert held_kinds([]) == HELD_KINDS
    assert held_kinds([blame("chan:a/1", 2), blame("queue:/q", 2)]) == HELD_KINDS
    assert held_kinds([blame("conn:a", 1), blame("chan:a/1", 1), blame("queue:/q", 3)]) == QUEUES
    assert held_kinds([blame(SLOW, 9)]) == HELD_KINDS, "a consumer is nobody's victim"


def test_publishers_that_wait_for_confirms_are_told_who_stops_their_queue() -> None:
    found = tables(blame("queue:/q", 90), blame(SLOW, 200))
    summary = summarise(found, RunDescription(), TableSource("", 10, 0, 0, 0))
    assert (summary.held_ns, summary.held_who) == (90 * S, "queues")
    assert summary.sentences[0] == (
        "Queues took nothing, and who waited for their confirms waited, because of slow consumers "
        "(100%); queue q most, 90.0 s."
    )
    (advice,) = recommend(found, S)
    assert (advice.rule, advice.scope, advice.share) == ("slow consumers", SLOW, 1.0)


def test_messages_are_counted_from_samples_over_lives_of_a_broker() -> None:
    def sample(t_s: int, queue: str, published: int, acked: int) -> DepthRow:
        return DepthRow(t_s * S, queue, 0, 0, 0, 0, published, acked)

    depths = (
        sample(1, "/q", 100, 50),
        sample(2, "/q", 160, 90),
        sample(2, "/r", 1000, 1000),
        sample(3, "/q", 7, 2),
        sample(4, "/q", 9, 9),
        sample(1, "/amq.flow.telemetry", 5, 0),
        sample(2, "/amq.flow.telemetry", 50, 0),
    )
    assert moved(depths) == (60 + 7 + 2, 40 + 2 + 7)
