"""The oracle, the summary and the page against a world whose truth is known."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.errors import OperatorError
from penstock.spark.job.pipeline import BUCKET_NS
from penstock.spark.report.report import render
from penstock.spark.report.summary import Summary, TableSource, summarise
from penstock.spark.schema.formats import read_run, require_input
from tests.spark import oracle
from tests.spark.oracle import percentile
from tests.spark.oracle_input import read_events, read_traces
from tests.spark.synthetic import Truth, World, write_world


def reported(directory: Path) -> Summary:
    """Summary and page of the files in `directory`/in, in `directory`/out."""
    events, traces = read_events(directory / "in"), read_traces(directory / "in")
    unreadable = events.unreadable_count + traces.unreadable_count
    counts = (len(events.events), events.missing_count, unreadable, len(traces.lines))
    tables = oracle.of_directory(directory / "in", BUCKET_NS)
    described = read_run(directory / "in")
    summary = summarise(tables, described, TableSource("the oracle", *counts), BUCKET_NS)
    (directory / "out").mkdir()
    summary.write(directory / "out" / "summary.json")
    page = render(tables, described, summary, BUCKET_NS)
    (directory / "out" / "index.html").write_text(page, encoding="utf-8")
    return summary


def analyse(directory: Path, world: World) -> tuple[Summary, Truth]:
    truth = write_world(directory / "in", world)
    return reported(directory), truth


def test_injected_causes_are_found(tmp_path: Path) -> None:
    """More than 95 % of every injected second is charged to the cause that was injected."""
    summary, truth = analyse(tmp_path, World(seed=1))
    causes = {cause.cause: cause.blamed_ns for cause in summary.causes}
    injected: dict[str, int] = {}
    for (victim, cause), length_ns in truth.blame_ns.items():
        # These connections wait for channels that wait: one wait.
        if cause == "slow consumers" and victim.startswith("conn:"):
            continue
        injected[cause] = injected.get(cause, 0) + length_ns
    assert causes.keys() == injected.keys()
    for cause, length_ns in injected.items():
        assert causes[cause] > 0.95 * length_ns
    assert sum(causes.values()) == sum(injected.values())


def test_a_clean_run_keeps_every_promise(tmp_path: Path) -> None:
    summary, truth = analyse(tmp_path, World(seed=2))
    assert summary.is_kept
    assert {promise.state for promise in summary.promises} == {"kept"}
    assert summary.published == truth.published == summary.delivered


def test_losses_and_duplicates_break_their_promises(tmp_path: Path) -> None:
    summary, _ = analyse(tmp_path, World(seed=3, lost=2, duplicated=3))
    assert (summary.lost, summary.duplicated) == (2, 3)
    assert [promise.state for promise in summary.promises[:2]] == ["broken", "broken"]
    assert not summary.is_kept


def test_damage_is_counted_and_survived(tmp_path: Path) -> None:
    summary, truth = analyse(tmp_path, World(seed=4, damaged=True))
    assert summary.source.events_missing == truth.missing_events == 3
    assert summary.source.unreadable_lines == 1
    assert summary.is_kept


def test_the_summary_reads_back_as_it_was(tmp_path: Path) -> None:
    summary, _ = analyse(tmp_path, World(seed=5))
    assert Summary.read(tmp_path / "out" / "summary.json") == summary


def test_the_page_stands_alone(tmp_path: Path) -> None:
    analyse(tmp_path, World(seed=6))
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "6 checks passed" in page
    for outside in ("<script", "<link", "src=", "@import", "url(http"):
        assert outside not in page


def test_a_broker_without_traces_is_not_said_to_have_published_nothing(tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=6))
    for path in (tmp_path / "in").iterdir():
        if not path.name.startswith("events"):
            path.unlink()
    summary = reported(tmp_path)
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert (summary.source.trace_count, summary.is_kept) == (0, True)
    assert summary.source.event_count > 0
    assert "messages published" not in page and "messages came into queues" in page
    assert "3 checks passed, 2 not possible" in page
    assert not any("unrelated queue" in promise.name for promise in summary.promises)


def test_a_directory_without_input_is_refused_with_the_way_to_get_some(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="penstock serve --events"):
        require_input(tmp_path)
    with pytest.raises(OperatorError, match="not a directory"):
        require_input(tmp_path / "missing")


def test_a_broken_run_description_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("[]", encoding="utf-8")
    with pytest.raises(OperatorError, match="not a run description"):
        read_run(tmp_path)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.floats(0, 1))
def test_a_percentile_lies_between_its_neighbours(values: list[int], part: float) -> None:
    values.sort()
    found = percentile(values, part)
    assert values[0] <= found <= values[-1]
    assert percentile(values, 0.0) == values[0]
    assert percentile(values, 1.0) == values[-1]
