"""One live broker for the whole conformance run: Penstock, or any other one named by a URL.

`PENSTOCK_CONFORMANCE_URL` (an `amqp://` URL) points the tests at a broker that already runs, for
example RabbitMQ as the oracle; nothing is started or stopped then. RabbitMQ needs
`max_message_size = 16777216` in its configuration, which is Penstock's limit. Otherwise a Penstock
process is started on a free loopback port and must, at the end, exit cleanly on SIGTERM and have
written no traceback.

At the end the run prints what was off, in the clients' own suites too, and why.
"""

import os
from collections.abc import Iterator

import pytest
from pika import BlockingConnection
from pika.adapters.blocking_connection import BlockingChannel

from tests.conformance.cases import DELIBERATE
from tests.conformance.live import Broker, from_url, penstock_process
from tests.conformance.through_pika import connect

URL_VARIABLE = "PENSTOCK_CONFORMANCE_URL"
SUITE_SUMMARIES = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "suites: runs a client's own tests, from the package index")
    config.stash[SUITE_SUMMARIES] = []


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    summaries = config.stash[SUITE_SUMMARIES]
    if not summaries:
        return
    terminalreporter.section("conformance: what is off, and why")
    for case, (_expected, reason) in sorted(DELIBERATE.items()):
        terminalreporter.line(f"answer on purpose unlike RabbitMQ 3.10.8: {case}: {reason}")
    for line in summaries:
        terminalreporter.line(line)


@pytest.fixture(scope="session")
def suite_summaries(request: pytest.FixtureRequest) -> list[str]:
    """Lines the run prints at its end about the clients' own suites."""
    return request.config.stash[SUITE_SUMMARIES]


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker under test, shared: every test uses names of its own."""
    url = os.environ.get(URL_VARIABLE, "")
    if url:
        yield from_url(url)
        return
    with penstock_process(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A prefix for queues, exchanges and tags that no other test uses."""
    return f"conformance.{os.getpid()}.{abs(hash(request.node.nodeid)) % 10**9}"


@pytest.fixture
def connection(broker: Broker) -> Iterator[BlockingConnection]:
    """A pika connection of the test's own."""
    opened = connect(broker)
    yield opened
    if opened.is_open:
        opened.close()


@pytest.fixture
def channel(connection: BlockingConnection) -> BlockingChannel:
    """A pika channel on that connection."""
    return connection.channel()


@pytest.fixture
def queue(channel: BlockingChannel, name: str) -> str:
    """A queue with the test's own name, declared on that channel."""
    channel.queue_declare(name)
    return name
