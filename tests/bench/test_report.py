"""Reports: medians and paired ratios of given samples, losses that cannot hide, a stable hash."""

from dataclasses import replace

import pytest

from bench.brokers import Target
from bench.measure import Sample
from bench.report import (
    Samples,
    duration,
    medians,
    ratios,
    short,
    smoke_facts,
    smoke_faults,
    smoke_hash,
    spread_of,
    workload_report,
)
from bench.workloads import WORKLOADS

ROWS = {workload.name: workload for workload in WORKLOADS}
PENSTOCK = Target("penstock", "penstock")
RABBITMQ = Target("rabbitmq", "rabbitmq")


def sample(rate: float, cpu_us: float, p50_us: float = 100.0) -> Sample:
    """A run in which everything arrived."""
    return Sample(
        rate=rate,
        publish_rate=rate,
        cpu_us=cpu_us,
        kernel_share=0.5,
        latency_us=(p50_us, 2 * p50_us, 3 * p50_us),
        confirm_us=(0.0, 0.0, 0.0),
        held_share=0.0,
        generator_share=0.1,
        rss_before_mb=10.0,
        rss_max_mb=20.0,
        seconds=1.0,
        sent=3000,
        confirmed=3000,
        got=3000,
        body_bytes=3_072_000,
        lost=0,
        wrong=0,
        altered=0,
        disorder=0,
        nacks=0,
        per_consumer=(3000,),
        load_average=0.0,
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (950, "950"), (12_345, "12.3k"), (950_000, "950k"), (4_560_000, "4.56M")],
)
def test_rates_are_short(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(("us", "text"), [(85.2, "85us"), (1234, "1.23ms"), (3_400_000, "3.4s")])
def test_durations_choose_their_unit(us: float, text: str) -> None:
    assert duration(us) == text


def test_a_spread_is_median_and_range() -> None:
    spread = spread_of([3.0, 1.0, 2.0])
    assert (spread.low, spread.median, spread.high) == (1.0, 2.0, 3.0)


def test_ratios_pair_runs_of_the_same_repeat() -> None:
    ours = [sample(200, 1.0), None, sample(90, 2.0)]
    theirs = [sample(100, 4.0), sample(1, 1.0), sample(30, 4.0)]
    found = ratios(list(ours), list(theirs))
    assert (found["rate_ratio"].low, found["rate_ratio"].high) == (2.0, 3.0)
    assert (found["cpu_ratio"].low, found["cpu_ratio"].high) == (2.0, 4.0)


def test_without_process_ids_there_are_no_cpu_figures() -> None:
    assert "cpu_us" not in medians([sample(1, 0.0)])
    assert "cpu_ratio" not in ratios([sample(1, 1.0)], [sample(1, 0.0)])


def test_a_row_compares_and_judges() -> None:
    results: dict[str, Samples] = {"penstock": [sample(200, 1.0)], "rabbitmq": [sample(100, 4.0)]}
    lines, values = workload_report(ROWS["b1k"], [PENSTOCK, RABBITMQ], results)
    assert any("against rabbitmq: rate 2x" in line for line in lines)
    assert lines[-1].endswith("penstock: stretch")
    assert set(values) == {"question", "penstock", "rabbitmq"}


def test_persistent_rows_are_not_compared() -> None:
    results: dict[str, Samples] = {"penstock": [sample(200, 1.0)], "rabbitmq": [sample(100, 4.0)]}
    lines, _ = workload_report(ROWS["c1k"], [PENSTOCK, RABBITMQ], results)
    assert "NOT COMPARED" in lines[1]
    assert not any("against" in line for line in lines)


def test_a_row_without_any_good_run_says_so() -> None:
    lines, _ = workload_report(ROWS["a16"], [PENSTOCK], {"penstock": [None]})
    assert "every run failed" in lines[-1]


def test_a_loss_shows_in_the_table() -> None:
    losing = replace(sample(1, 1.0), lost=7)
    lines, _ = workload_report(ROWS["a16"], [PENSTOCK], {"penstock": [losing]})
    assert any("LOST OR WRONG 7" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"got": 2999}, "delivered 2999 of 3000"),
        ({"sent": 2999}, "sent 2999"),
        ({"confirmed": 1}, "confirmed 1 of"),
        ({"nacks": 1}, "refused"),
        ({"wrong": 1}, "another size"),
        ({"altered": 1}, "altered"),
        ({"disorder": 1}, "out of order"),
    ],
)
def test_a_smoke_run_finds_each_fault(change: dict[str, int], word: str) -> None:
    good = sample(1, 1.0)
    assert smoke_faults(ROWS["b1k"], good) == []
    faults = smoke_faults(ROWS["b1k"], replace(good, **change))  # type: ignore[arg-type]
    assert any(word in fault for fault in faults)


def test_the_hash_holds_counts_and_forgets_times() -> None:
    row, good = ROWS["b1k"], sample(1, 1.0)
    name = smoke_hash([smoke_facts(row, good)])
    assert name == smoke_hash([smoke_facts(row, sample(5, 9.0))])
    assert name != smoke_hash([smoke_facts(row, replace(good, per_consumer=(2999, 1)))])
