"""Reports: medians and paired ratios of given samples, losses that cannot hide, a stable hash."""

from dataclasses import replace

import pytest

from bench.brokers import LIMIT, Target
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
    takes_part,
    workload_report,
)
from bench.workloads import WORKLOADS

ROWS = {workload.name: workload for workload in WORKLOADS}
PENSTOCK = Target("penstock", "penstock")
RABBITMQ = Target("rabbitmq", "rabbitmq")
RELAY = Target(LIMIT, LIMIT)


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


def test_a_confirm_is_told_in_syncs_of_its_own_minute() -> None:
    """Two runs on a disk that became ten times slower in between: the ratio stays the same."""
    quick = replace(sample(200, 1.0), confirm_us=(200.0, 300.0, 400.0), sync_us=(100.0, 150.0))
    slow = replace(sample(20, 1.0), confirm_us=(2000.0, 3000.0, 4000.0), sync_us=(1000.0, 1500.0))
    lines, values = workload_report(ROWS["chalf"], [PENSTOCK], {"penstock": [quick, slow]})
    assert "confirm 1.1ms/1.65ms = 2/3 syncs of 550us/825us" in lines[1]
    assert medians([quick, slow])["confirm_p99_syncs"] == 3.0
    assert set(values) == {"question", "penstock"}


def test_bounds_in_microseconds_go_with_what_the_rival_takes_here() -> None:
    """4 us were asked where RabbitMQ took 29.7; on a machine of half that speed they are 8."""
    compiled = replace(PENSTOCK, is_compiled=True)
    reference_us = ROWS["c1k"].reference_us
    for slowness, cpu_us, word in ((1.0, 3.9, "floor"), (1.0, 4.1, "below"), (2.0, 7.9, "floor")):
        results: dict[str, Samples] = {
            "penstock": [sample(300, cpu_us)],
            "rabbitmq": [sample(100, slowness * reference_us)],
        }
        lines, values = workload_report(ROWS["c1k"], [compiled, RABBITMQ], results)
        assert lines[-1].startswith(f"    penstock: {word}")
        assert ("of its reference" in lines[-1]) == (slowness != 1.0)
        found = values["penstock"]
        assert isinstance(found, dict)
        assert found["slowness"] == pytest.approx(slowness)


def test_a_confirm_stands_beside_the_least_there_is() -> None:
    run = replace(sample(200, 1.0), confirm_us=(200.0, 300.0, 400.0), sync_us=(100.0, 150.0))
    run = replace(run, ideal_us=(150.0, 250.0))
    lines, _ = workload_report(ROWS["chalf"], [PENSTOCK], {"penstock": [run]})
    assert "2/3 syncs of 100us/150us, at least 150us/250us" in lines[1]


def test_rows_that_keep_nothing_do_not_speak_of_syncs() -> None:
    assert "confirm_p99_syncs" not in medians([sample(1, 1.0)])


def test_quorum_queues_stand_beside_and_judge_nobody() -> None:
    quorum = Target("rabbitmq-quorum", "rabbitmq", queue_type="quorum")
    results: dict[str, Samples] = {
        "penstock": [sample(100, 1.0)],
        "rabbitmq": [sample(200, 50.0)],
        "rabbitmq-quorum": [sample(10, 50.0)],
    }
    compiled = replace(PENSTOCK, is_compiled=True)
    lines, _ = workload_report(ROWS["c1k"], [compiled, RABBITMQ, quorum], results)
    assert any("against rabbitmq-quorum: rate 10x" in line for line in lines)
    assert "below floor (rate_ratio 0.5" in lines[-1]
    assert not takes_part(quorum, ROWS["a16"])
    assert not any(
        "quorum" in line
        for line in workload_report(
            ROWS["a16"], [PENSTOCK, RABBITMQ, quorum], results | {"rabbitmq-quorum": []}
        )[0]
    )


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


def test_a_row_says_what_share_of_the_limit_was_reached_and_whether_that_is_enough() -> None:
    compiled = Target("penstock-compiled", "penstock", is_compiled=True)
    results: dict[str, Samples] = {
        compiled.name: [sample(2.0e6, 0.3), sample(3.0e6, 0.2)],
        LIMIT: [sample(8.0e6, 0.06), sample(6.0e6, 0.1)],
    }
    lines, values = workload_report(ROWS["a16"], [compiled, RELAY], results)
    told = next(line for line in lines if "share of the limit" in line)
    assert "rate 0.38 (0.25-0.50)" in told and "processor time 0.35 (0.20-0.50)" in told
    assert told.endswith("goal 0.35 reached")
    entry = values[compiled.name]
    assert isinstance(entry, dict)
    assert entry["ratios"][LIMIT]["rate_ratio"]["median"] == pytest.approx(0.375)

    results[compiled.name] = [sample(2.0e6, 0.3), sample(2.0e6, 0.2)]
    lines, _ = workload_report(ROWS["a16"], [compiled, RELAY], results)
    assert any(line.endswith("goal 0.35 missed") for line in lines)


def test_the_relay_takes_no_part_where_it_does_not_know_what_is_sent() -> None:
    assert not takes_part(RELAY, ROWS["mixed"])
    lines, _ = workload_report(ROWS["mixed"], [PENSTOCK, RELAY], {PENSTOCK.name: [sample(1, 1)]})
    assert not any("limit" in line for line in lines)
