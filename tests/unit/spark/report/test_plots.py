"""Rates of queues from samples of counters: over spans, and never across two lives of a broker."""

import pytest

from penstock.spark.report.paces import SPANS_MAX, MessageRates, paces, shown_queues
from penstock.spark.report.plots import rates, states, throughput
from penstock.spark.report.promises import moved
from penstock.spark.report.scales import LogScale, TimeAxis, elapsed, top_of
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import DepthRow, HeldRow, StateRow, Tables

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


def test_the_time_of_those_who_have_one_name_is_one_row() -> None:
    """As of a Spark query that was started again, or of its tasks."""
    found = states(
        Tables(*((),) * 3, (
            StateRow(0, "conn:minutes (shop): task 1@127.0.0.1:1", 10, 10, 0, 0, 0),
            StateRow(0, "conn:minutes (shop): task 2@127.0.0.1:2", 10, 0, 10, 0, 0),
            StateRow(0, "queue:/q", 10, 0, 0, 10, 0),
        ), *((),) * 5)
    )  # fmt: skip
    assert [(row.name, row.note) for row in found] == [
        ("queue q", "100% blocked"),
        ("Spark query minutes (shop)", "50% busy"),
    ]


def test_a_counter_that_falls_begins_anew() -> None:
    before = samples("/q", 6, 100, 100)
    after = [one._replace(t_ns=one.t_ns + 60 * S) for one in samples("/q", 6, 7, 7)]
    assert paces([*before, *after]) == [
        MessageRates(0, 5 * S, 100.0, 100.0),
        MessageRates(60 * S, 65 * S, 7.0, 7.0),
    ]


def test_brokers_of_one_machine_do_not_count_on_from_each_other() -> None:
    """They are one node, and may have queues of one name at the same time."""
    old, new = samples("/q", 10, 7, 7), []
    for boot, late_ns, begun in (("a", 0, 5000), ("b", 1, 0)):
        for one in old:
            count = one.published + begun
            new.append(one._replace(boot_id=boot, t_ns=one.t_ns + late_ns, published=count))
    both = sorted(new)
    assert moved(both) == (140, 140)
    assert {(one.published, one.acked) for one in paces(both)} == {(7.0, 7.0)}
    assert len(paces(both)) == 4


def test_stopped_queues_come_before_busy_ones_and_the_brokers_own_is_left_out() -> None:
    names = ("/calm", "/busy", "/stopped", "/idle", "/amq.flow.telemetry")
    counts = (10, 90, 1, 0, 1000)
    depths = [
        row for name, one in zip(names, counts, strict=True) for row in samples(name, 5, one, 1)
    ]
    held = (HeldRow(0, "queue:/stopped", S), HeldRow(0, "conn:a", 9 * S))
    tables = Tables((), (), held, (), (), (), (), tuple(depths), ())
    assert shown_queues(tables) == [("", "/stopped"), ("", "/busy"), ("", "/calm")]
    drawn = rates(TimeAxis(tables, RunDescription(), S), tables, S)
    assert [one.title for one in drawn] == ["stopped", "busy", "calm"]
    assert [line.name for line in drawn[0].lines] == ["stopped", "published", "taken by consumers"]
    nothing = Tables((), (), (), (), (), (), (), (), ())
    assert rates(TimeAxis(nothing, RunDescription(), S), nothing, S) == []


def test_what_flowed_without_traces_is_what_came_into_queues() -> None:
    """100 a second for 20 s, and 50 done with, of one queue among others."""
    tables = Tables(
        (), (), (), (), (), (), (), (*samples("/q", 20, 100, 50), *samples("/r", 20, 0, 0)), ()
    )
    (plot,) = throughput(TimeAxis(tables, RunDescription(), S), tables)
    top = float(plot.y_ticks[-1].text.replace(",", ""))
    heights = [
        [100 - float(point.split(",")[1]) for point in line.points[0].split()]
        for line in plot.lines
    ]
    means = [sum(one) / len(one) / 100 * top for one in heights]
    assert means == [pytest.approx(100, rel=0.1), pytest.approx(50, rel=0.1)]


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 99.0, 100.0, 7_501.0, 1e9])
def test_an_axis_ends_at_a_round_number_above_the_highest(value: float) -> None:
    assert value < top_of(value) <= max(1.5, 2.5 * value)


@pytest.mark.parametrize(("low", "high"), [(2e5, 9e11), (1.5e9, 3.3e10), (2.1e9, 9.8e9)])
def test_an_axis_of_times_has_numbers_however_short_it_is(low: float, high: float) -> None:
    ticks = LogScale([low, high]).ticks()
    assert 2 <= len(ticks) <= 8 and len({tick.text for tick in ticks}) == len(ticks)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (90, "90 s"), (150, "2:30 min"), (11_100, "3:05 h")]
)
def test_a_time_since_the_start(seconds: float, text: str) -> None:
    assert elapsed(seconds) == text
