"""Fixtures of pytest: a broker for the test run, and a virtual host for each test.

pytest imports this file wherever Penstock is installed, so it imports nothing of Penstock before a
fixture is used. What a test may do with them is in docs/testing.md.
"""

import re
import time
from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pluggy import Result

    from penstock.testing import Broker, VirtualHost

BROKER = pytest.StashKey["Broker"]()
VHOST = pytest.StashKey["VirtualHost"]()
"""Of a test."""
BEGAN = pytest.StashKey[tuple[float, int]]()
"""Of a test: the time at which it began, and how long the broker's log was then."""
WINDOW_S_MAX = 60.0
NAME_CHARACTERS_MAX = 80


@pytest.fixture(scope="session")
def penstock_settings() -> Mapping[str, object]:
    """Settings of the broker, as keys of its configuration file; override it in a conftest.py."""
    return {}


@pytest.fixture(scope="session")
def penstock_broker(
    request: pytest.FixtureRequest, penstock_settings: Mapping[str, object]
) -> Iterator["Broker"]:
    """A broker for the whole run (with pytest-xdist one for each worker): a process of its own, in
    memory, on a free port. See penstock.testing.Broker."""
    from penstock.testing import Broker

    stash = request.config.stash
    with Broker(None, **penstock_settings) as broker:
        stash[BROKER] = broker
        yield broker
        del stash[BROKER]


@pytest.fixture
def penstock_vhost(
    request: pytest.FixtureRequest, penstock_broker: "Broker"
) -> Iterator["VirtualHost"]:
    """A virtual host for this test alone, removed afterwards. See penstock.testing.VirtualHost."""
    name = re.sub(r"[^\w.-]+", "-", request.node.name)[:NAME_CHARACTERS_MAX].strip("-")
    with penstock_broker.vhost(name) as vhost:
        request.node.stash[VHOST] = vhost
        yield vhost


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    broker = item.config.stash.get(BROKER, None)
    item.stash[BEGAN] = (time.monotonic(), 0 if broker is None else broker.log_bytes())


# Wrappers of the older kind: this file must not fail in whatever pytest there is.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> "Generator[None, Result[pytest.TestReport], None]":
    """A failed test that has used the broker shows what is left there."""
    report = (yield).get_result()
    broker = item.config.stash.get(BROKER, None)
    # Also where a fixture of the test has asked for it.
    is_used = "penstock_broker" in getattr(item, "fixturenames", ())
    if broker is not None and is_used and report.failed and report.when != "teardown":
        # Without a beginning where the hook of another plugin has failed before ours was called.
        began_s, log_from = item.stash.get(BEGAN, (time.monotonic(), broker.log_bytes()))
        window_s = min(max(1.0, time.monotonic() - began_s), WINDOW_S_MAX)
        vhost = item.stash.get(VHOST, None)
        name = "" if vhost is None else vhost.name
        text = broker.leftovers(name, log_from, window_s)
        report.sections.append(("penstock: what is left in the broker", text))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Alarms that a test has raised end with it, also when a fixture of it fails at its end."""
    yield
    broker = item.config.stash.get(BROKER, None)
    if broker is not None:
        broker.calm()
