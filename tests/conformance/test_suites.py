"""Other projects' own test suites pass against the broker, but for the list of exceptions.

They run side by side, because most of them mostly wait, and each on a broker of its own, because
they share names. Without the package index, or the repository some come from, they cannot be had,
and the tests are skipped with what pip or git said. Those that take longer than the rest together
run when `PENSTOCK_LONG_SUITES=1`.
"""

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from tests.conformance.live import Broker, penstock_process
from tests.conformance.suite_shelf import Shelf, Unreachable
from tests.conformance.suite_table import SUITES, Suite
from tests.conformance.suites import (
    Disturbed,
    Result,
    complaints,
    judged,
    prepare,
    summary,
    switched_off,
)

pytestmark = [pytest.mark.slow, pytest.mark.suites]

Running = Future[list[Result]]
LONG_VARIABLE = "PENSTOCK_LONG_SUITES"


def is_wanted(suite: Suite) -> bool:
    """Whether this run is long enough for it."""
    return not suite.is_long or os.environ.get(LONG_VARIABLE, "") == "1"


def fetched_and_run(suite: Suite, shelf: Shelf, shared: Broker, folder: Path) -> list[Result]:
    """The results of a suite on a broker of its own, or on the shared one from outside.

    Raises: Unreachable, AssertionError, Disturbed."""

    def fresh() -> AbstractContextManager[Broker]:
        return penstock_process(folder) if shared.pid else nullcontext(shared)

    return judged(prepare(suite, shelf), fresh, folder)


@pytest.fixture(scope="module")
def running(
    broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Running]]:
    """All suites, started at once; each begins when what it needs has been fetched."""
    shelf = Shelf()
    with ThreadPoolExecutor(len(SUITES)) as pool:
        yield {
            name: pool.submit(fetched_and_run, suite, shelf, broker, tmp_path_factory.mktemp(name))
            for name, suite in SUITES.items()
            if is_wanted(suite)
        }


@pytest.mark.parametrize("name", SUITES)
def test_suite(running: dict[str, Running], suite_summaries: list[str], name: str) -> None:
    if not is_wanted(SUITES[name]):
        pytest.skip(f"takes long: {LONG_VARIABLE}=1 runs it")
    try:
        results = running[name].result()
    except Unreachable as error:
        pytest.skip(f"{name} cannot be had: {error}")
    except Disturbed as error:
        pytest.skip(f"THE MACHINE IS TOO BUSY TO JUDGE: {error}")
    suite_summaries += summary(SUITES[name], results, switched_off(name))
    assert any(result.outcome == "passed" for result in results)
    told = complaints(results, switched_off(name))
    assert not told, "\n".join(told)


def test_every_entry_of_the_list_names_a_suite_and_a_reason() -> None:
    for name in SUITES:
        for entry in switched_off(name):
            assert len(entry.reason) > 10, entry
