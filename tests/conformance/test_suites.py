"""The client projects' own test suites pass against the broker, but for the list of exceptions.

They run side by side, because most of them mostly wait, and each on a broker of its own, because
they share names. Without the package index they cannot be had, and the tests are skipped with what
pip said.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from tests.conformance.live import Broker, penstock_process
from tests.conformance.suites import (
    SUITES,
    Result,
    Shelf,
    Unreachable,
    complaints,
    prepare,
    run,
    summary,
    switched_off,
)

pytestmark = [pytest.mark.slow, pytest.mark.suites]

Running = Future[list[Result]] | Unreachable


@pytest.fixture(scope="module")
def running(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Running]]:
    """All suites that can be had, started at once; on a broker from outside they share it."""
    shelf = Shelf()
    started: dict[str, Running] = {}
    with ExitStack() as brokers, ThreadPoolExecutor(len(SUITES)) as pool:
        for name, suite in SUITES.items():
            folder = tmp_path_factory.mktemp(name)
            try:
                prepared = prepare(suite, shelf)
            except Unreachable as error:
                started[name] = error
                continue
            own = brokers.enter_context(penstock_process(folder)) if broker.pid else broker
            started[name] = pool.submit(run, prepared, own, folder)
        yield started


@pytest.mark.parametrize("name", SUITES)
def test_suite(running: dict[str, Running], suite_summaries: list[str], name: str) -> None:
    started = running[name]
    if isinstance(started, Unreachable):
        pytest.skip(f"the package index did not deliver {name}: {started}")
    results = started.result()
    suite_summaries += summary(SUITES[name], results, switched_off(name))
    assert any(result.outcome == "passed" for result in results)
    told = complaints(results, switched_off(name))
    assert not told, "\n".join(told)


def test_every_entry_of_the_list_names_a_suite_and_a_reason() -> None:
    for name in SUITES:
        for entry in switched_off(name):
            assert len(entry.reason) > 10, entry
