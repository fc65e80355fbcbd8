"""The client projects' own test suites pass against the broker, but for the list of exceptions.

They run side by side, because most of them mostly wait. Without the package index they cannot be
had, and the tests are skipped with what pip said.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.conformance.live import Broker
from tests.conformance.suites import SUITES, Result, Unreachable, complaints, run, switched_off

pytestmark = [pytest.mark.slow, pytest.mark.suites]


@pytest.fixture(scope="module")
def running(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[list[Result]]]]:
    """All suites, started at once."""
    folder = tmp_path_factory.mktemp("suites")
    with ThreadPoolExecutor(len(SUITES)) as pool:
        yield {name: pool.submit(run, suite, broker, folder) for name, suite in SUITES.items()}


@pytest.mark.parametrize("name", SUITES)
def test_suite(running: dict[str, Future[list[Result]]], name: str) -> None:
    try:
        results = running[name].result()
    except Unreachable as error:
        pytest.skip(f"the package index did not deliver {name}: {error}")
    assert any(result.outcome == "passed" for result in results)
    told = complaints(results, switched_off(name))
    assert not told, "\n".join(told)


def test_every_entry_of_the_list_names_a_suite_and_a_reason() -> None:
    for name in SUITES:
        for entry in switched_off(name):
            assert len(entry.reason) > 10, entry
