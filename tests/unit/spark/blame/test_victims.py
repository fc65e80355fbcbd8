"""Queues are told of where they were stopped for longer than any publisher was held."""

from penstock.spark.blame.blame import HELD_KINDS, QUEUES, held_kinds
from penstock.spark.report.recommend import recommend
from penstock.spark.report.summary import Source, moved, summarise
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import BlameRow, DepthRow, Tables

S = 1_000_000_000
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
    summary = summarise(found, RunDescription(), Source("plain", "", 10, 0, 0, 0))
    assert (summary.held_ns, summary.held_who) == (90 * S, "queues")
    assert summary.sentences[0] == (
        "Queues took nothing, and who waited for their confirms waited, because of slow consumers "
        "(100%); queue:/q most, 90.0 s."
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
    assert moved(Tables((), (), (), (), (), (), (), depths, ())) == (60 + 7 + 2, 40 + 2 + 7)
