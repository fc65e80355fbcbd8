"""Rates of queues from samples of counters: over spans, and never across two lives of a broker."""

import pytest

pytest.importorskip("matplotlib")

from penstock.spark.report.time_charts import SPANS_MAX, MessageRates, paces, rates, shown_queues
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import DepthRow, HeldRow, Tables

S = 1_000_000_000


def samples(queue: str, count: int, published: int, acked: int) -> list[DepthRow]:
    """A sample a second; so many messages a second come and go."""
    return [
        DepthRow(at * S, queue, 0, 0, 1, 0, at * published, at * acked) for at in range(count + 1)
    ]


def test_rates_are_those_of_spans_of_five_seconds() -> None:
    found = paces(samples("/q", 13, 100, 40))
    assert found[:2] == [
        MessageRates(0, 5 * S, 100.0, 40.0),
        MessageRates(5 * S, 10 * S, 100.0, 40.0),
    ]
    assert found[2:] == [MessageRates(10 * S, 13 * S, 100.0, 40.0)], (
        "half a span at the end is enough"
    )
    assert len(paces(samples("/q", 3600, 1, 1))) == SPANS_MAX
    assert paces([]) == paces(samples("/q", 0, 1, 1)) == []


def test_a_counter_that_falls_begins_anew() -> None:
    before = samples("/q", 6, 100, 100)
    after = [one._replace(t_ns=one.t_ns + 60 * S) for one in samples("/q", 6, 7, 7)]
    assert paces([*before, *after]) == [
        MessageRates(0, 5 * S, 100.0, 100.0),
        MessageRates(60 * S, 65 * S, 7.0, 7.0),
    ]


def test_stopped_queues_come_before_busy_ones_and_the_brokers_own_is_left_out() -> None:
    names = ("/calm", "/busy", "/stopped", "/idle", "/amq.flow.telemetry")
    counts = (10, 90, 1, 0, 1000)
    depths = [
        row for name, one in zip(names, counts, strict=True) for row in samples(name, 5, one, 1)
    ]
    held = (HeldRow(0, "queue:/stopped", S), HeldRow(0, "conn:a", 9 * S))
    tables = Tables((), (), held, (), (), (), (), tuple(depths), ())
    assert shown_queues(tables) == ["/stopped", "/busy", "/calm"]
    drawn = rates(tables, RunDescription(), 0, S)
    assert [name for name in names if f">{name}<" in drawn] == ["/calm", "/busy", "/stopped"]
    assert "queue stopped" in drawn and "(B/T)" in drawn
    assert rates(Tables((), (), (), (), (), (), (), (), ()), RunDescription(), 0, S) == ""
