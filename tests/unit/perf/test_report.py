"""The words of the report, and what a program reads from it."""

import json

from penstock.perf.meter import Tally
from penstock.perf.plan import LoadPlan
from penstock.perf.report import JsonReport, LoadResult, Shares, TextReport, figures_of

SPENT = (500_000_000, 390_000_000, 80_000_000, 30_000_000, 0)
MS = 1_000_000


def tally() -> Tally:
    counted = Tally()
    counted.sent, counted.received, counted.sent_bytes = 9812, 9790, 117_744
    for value in [2] * 5 + [9] * 5:
        counted.intended_latency.record(value * MS)
        counted.sent_latency.record(value * MS // 10)
    return counted


def outcome(lost: int = 0, unconfirmed: int = 0, failures: tuple[str, ...] = ()) -> LoadResult:
    figures = figures_of(tally(), SPENT, 3.0, 1.0, False)
    return LoadResult(figures, 9812, 9790, 9812, lost, unconfirmed,
                   (("producer 1", Shares(0.5, 0.39, 0.08, 0.03, 0.0)),), failures)  # fmt: skip


def test_the_line_of_a_second() -> None:
    line = TextReport(LoadPlan()).interval(figures_of(tally(), SPENT, 3.0, 1.0, False))
    assert line == (
        "time 3.000 s, sent: 9812 msg/s, received: 9790 msg/s, "
        "min/median/75th/95th/99th latency: 2.0/2.0/9.0/9.0/9.0 ms, "
        "blocked: 11 % (socket 8, alarm 3)"
    )


def test_a_fixed_rate_shows_both_latencies_and_the_warm_up_is_marked() -> None:
    line = TextReport(LoadPlan(rate_per_s=10)).interval(figures_of(tally(), SPENT, 1.0, 1.0, True))
    assert line.startswith("time 1.000 s (warm-up), ")
    assert "latency: 2.0/2.0/9.0/9.0/9.0 ms (once sent: 0.20/0.20/0.90/0.90/0.90)" in line


def test_nothing_measured_is_shown_as_such() -> None:
    line = TextReport(LoadPlan()).interval(figures_of(Tally(), SPENT, 1.0, 1.0, False))
    assert "latency: -/-/-/-/- ms" in line


def test_the_summary_says_what_is_missing() -> None:
    text = TextReport(LoadPlan()).summary(outcome(lost=22, failures=("producer 1: 320 gone",)))
    assert "received 9790 of 9812 expected, lost 22" in text
    assert "failed    producer 1: 320 gone" in text


def test_the_exit_code_tells_failure_from_loss() -> None:
    assert outcome().exit_code() == 0
    assert outcome(lost=1).exit_code() == 4
    assert outcome(unconfirmed=1).exit_code() == 4
    assert outcome(lost=1, failures=("x",)).exit_code() == 1


def test_a_program_reads_the_same_figures() -> None:
    report = JsonReport()
    line = json.loads(report.interval(figures_of(tally(), SPENT, 3.0, 1.0, False)))
    assert line["kind"] == "interval" and line["sent_per_s"] == 9812
    assert line["blocked"] == 0.11 and line["latency"]["count"] == 10
    last = json.loads(report.summary(outcome(lost=2)))
    assert (last["kind"], last["lost"], last["exit_code"]) == ("summary", 2, 4)
    assert last["producers"][0]["blocked"] == 0.11
