"""Advice: the rules speak where something cost time, with numbers, and are silent elsewhere."""

from pathlib import Path

import pytest

from penstock.spark.blame.blame import name_small_windows
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.report.recommend import HeadOfLine, head_of_line, recommend
from penstock.spark.report.summary import TableSource, summarise
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import BlameRow, BlockedByRow, DepthRow, HeldRow, StateRow, Tables
from tests.spark import oracle
from tests.spark.injected_causes import KINDS, drawn, record
from tests.spark.oracle_input import TraceLog, read_events

S = 1_000_000_000
NOTHING = Tables((), (), (), (), (), (), (), (), ())


def blame(root: str, blamed_ns: int, victim: str = "conn:A") -> BlameRow:
    return BlameRow(0, victim, root, "broker work", f"{victim} → {root}", blamed_ns)


def state(actor: str, *, busy: float, bucket_ns: int = 0) -> StateRow:
    return StateRow(bucket_ns, actor, S, int(S * (1 - busy)), int(S * busy), 0, 0)


@pytest.mark.parametrize(
    ("blamed_ns", "busy", "cause"),
    [
        (S // 2, 0.05, "small window"),
        (S // 2, 0.5, "broker work"),
        (S // 10, 0.05, "broker work"),
    ],
)
def test_a_stage_that_is_idle_while_it_holds_others_is_starved(
    blamed_ns: int, busy: float, cause: str
) -> None:
    (row,) = name_small_windows([blame("queue:/q", blamed_ns)], [state("queue:/q", busy=busy)])
    assert row == blame("queue:/q", blamed_ns)._replace(cause=cause)


def test_what_is_not_known_keeps_its_name() -> None:
    rows = [blame("queue:/q", S), blame("store:/", S)]
    states = [state("queue:/q", busy=0, bucket_ns=S), state("store:/", busy=0)]
    assert name_small_windows(rows, states) == rows


def test_a_channel_that_stops_its_connection_is_told() -> None:
    tables = NOTHING._replace(
        who_blocked_whom=(
            BlockedByRow(0, "conn:A", "chan:A/1", "credit", 600),
            BlockedByRow(0, "conn:B", "chan:B/1", "credit", 900),
            BlockedByRow(S, "conn:A", "chan:A/1", "credit", 300),
        ),
        held_time=(HeldRow(S, "chan:A/2", S), HeldRow(0, "chan:A/1", S)),
        time_in_state=tuple(
            state(actor, busy=0.1, bucket_ns=at)
            for at in (0, S)
            for actor in ("chan:A/1", "chan:A/2", "chan:A/3", "chan:B/1", "chan:AA/1")
        ),
        root_cause=(blame("chan:A/1", 900), blame("chan:B/1", 900, "conn:B")),
    )
    assert head_of_line(tables, S) == [HeadOfLine("conn:A", "chan:A/1", 2, 900)]
    advice = {one.rule: one for one in recommend(tables, S)}
    assert advice["head of line"].scope == "conn:A"
    assert "2 other channels" in advice["head of line"].evidence


def test_a_query_that_was_started_again_is_one_root() -> None:
    """Its connections are two, people see one name, and its share is that of both."""
    first, second = (f"consumer:minutes@conn:of shop: source@h:{port}" for port in (1, 2))
    other = "consumer:minutes@conn:of bank: source@h:3"
    rows = (
        blame(first, 3 * S),
        blame(second, 4 * S, "conn:B"),
        blame(other, S),
        blame(first, 2 * S)._replace(node="m"),
    )
    states = (state(first, busy=0.4), state(second, busy=0.2, bucket_ns=S))
    found = recommend(NOTHING._replace(root_cause=rows, time_in_state=states), S)
    assert [(one.scope, one.share) for one in found] == [
        (first, 0.7), (first + " on m", 0.2), (other, 0.1)
    ]  # fmt: skip
    assert "7.00 s of 10.00 s held (root_cause), 2 victims; busy 30%" in found[0].evidence


def test_the_share_of_a_root_is_that_of_all_of_its_connections() -> None:
    """None of them alone is worth a word."""
    ids = [f"conn:minutes (shop): task {number}@h:{number}" for number in range(30)]
    rows = tuple(blame(one, S) for one in ids)
    (found,) = recommend(NOTHING._replace(root_cause=rows), S)
    assert (found.scope, found.share) == (ids[0], 1.0)
    _, path_s = _sentences_of(rows)
    assert path_s == "A → Spark query minutes (shop), 30.0 s in all."


def _sentences_of(rows: tuple[BlameRow, ...]) -> list[str]:
    source = TableSource("", 1, 0, 0, 0)
    found = summarise(NOTHING._replace(root_cause=rows), RunDescription(), source)
    return [one.removeprefix("The longest chain of waiting was ") for one in found.sentences]


def test_a_connection_that_consumes_and_is_stopped_is_told() -> None:
    tables = NOTHING._replace(
        root_cause=(blame("alarm:memory", S)._replace(cause="memory alarm"),),
        time_in_state=(state("consumer:t@conn:A", busy=0),),
    )
    assert [one.rule for one in recommend(tables, S)] == ["memory alarm", "publishes and consumes"]
    own_socket = NOTHING._replace(
        root_cause=(blame("socket:A", S)._replace(cause="slow reader"),),
        time_in_state=(state("consumer:t@conn:A", busy=0),),
    )
    assert [one.rule for one in recommend(own_socket, S)] == ["slow reader"]


def test_a_backlog_on_the_disk_that_publishers_wait_for_is_told() -> None:
    tables = NOTHING._replace(
        root_cause=(blame("store:/", S)._replace(cause="disk"),),
        queue_depth=(
            DepthRow(0, "/q", 900, 0, 1, 800, 900, 0),
            DepthRow(S, "/q", 10, 0, 1, 0, 900, 890),
        ),
    )
    found = {one.rule: one for one in recommend(tables, S)}
    assert found["paging"].scope == "queue:/q"
    assert "up to 800 messages on it, in 1 sample " in found["paging"].evidence
    assert "paging" not in {one.rule for one in recommend(tables._replace(queue_depth=()), S)}


def test_nobody_held_needs_no_advice() -> None:
    assert recommend(NOTHING, S) == ()


def test_every_culprit_gets_advice_of_its_own(tmp_path: Path) -> None:
    for seed, kind in enumerate(KINDS):
        directory = tmp_path / str(seed)
        truth = record(drawn(seed), str(directory))
        tables = oracle.analyse(read_events(directory), TraceLog((), 0), BUCKET_NS)
        best = recommend(tables, BUCKET_NS)[0]
        assert best.rule == truth.cause, kind
        assert best.scope.startswith(truth.roots)
        assert "s held (root_cause)" in best.evidence
        assert "penstock why" not in best.advice
