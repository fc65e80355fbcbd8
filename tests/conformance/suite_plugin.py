"""A pytest plugin inside a client's own test run: where the broker is, and a report for us.

Loaded with `-p` into the subprocess that runs a downloaded suite; it changes no test. Everything
comes by environment: `PENSTOCK_SUITE_URL` is the broker, `PENSTOCK_SUITE_REPORT` the file that
gets one JSON line per finished test, `PENSTOCK_SUITE_SKIP` the tests not to run (JSON list of
node ids in which `*` stands for any text), `PENSTOCK_SUITE_TEST_S_MAX` the seconds a test may take,
`PENSTOCK_SUITE_USUAL_PORT` whether the suite believes the broker to be at port 5672 of this host.
"""

import json
import os
import re
import signal
import socket
from collections.abc import Iterator
from types import FrameType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest


def matches(nodeid: str, pattern: str) -> bool:
    """Is `nodeid` named by `pattern`, in which each `*` stands for any text? `[` is itself."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), nodeid, re.S) is not None


class TooLong(BaseException):
    """A test took longer than it may; no `except Exception` may swallow this."""


USUAL_PORT = 5672


def lead_to(port: int) -> None:
    """Let every connection of this process to the usual port of AMQP go to `port`."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def other(address: Any) -> Any:
        if isinstance(address, tuple) and address[1] == USUAL_PORT:
            return (address[0], port, *address[2:])
        return address

    def led(self: socket.socket, address: Any) -> None:
        connect(self, other(address))

    def led_ex(self: socket.socket, address: Any) -> int:
        return connect_ex(self, other(address))

    setattr(socket.socket, "connect", led)  # noqa: B010 - a plain assignment is no method to mypy
    setattr(socket.socket, "connect_ex", led_ex)  # noqa: B010


# Now, because pytest imports a suite's conftest files before it lets plugins configure anything,
# and some connect right there.
if os.environ.get("PENSTOCK_SUITE_USUAL_PORT"):
    lead_to(urlsplit(os.environ["PENSTOCK_SUITE_URL"]).port or USUAL_PORT)


class Container(NamedTuple):
    """What aiormq's tests want to know of the broker they would start in a container."""

    host: str
    ports: dict[str, int]


@pytest.fixture(scope="session")
def amqp_direct_url() -> Any:
    """aiormq: the broker's URL, as the type the suite works with."""
    return pytest.importorskip("yarl").URL(os.environ["PENSTOCK_SUITE_URL"])


@pytest.fixture(scope="session")
def rabbitmq_container(amqp_direct_url: Any) -> Container:
    """aiormq: host and ports; nobody listens on the TLS port."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        tls: int = unused.getsockname()[1]
    return Container(amqp_direct_url.host, {"5672/tcp": amqp_direct_url.port, "5671/tcp": tls})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    skip = json.loads(os.environ["PENSTOCK_SUITE_SKIP"])
    off = [item for item in items if any(matches(item.nodeid, pattern) for pattern in skip)]
    config.hook.pytest_deselected(items=off)
    for item in off:
        items.remove(item)
        write(item.nodeid, "not run", 0.0, "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Iterator[None]:
    s_max = float(os.environ["PENSTOCK_SUITE_TEST_S_MAX"])

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooLong(f"took longer than {s_max} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, s_max)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        write(report.nodeid, report.outcome, report.duration, report.longreprtext[-1500:])


def write(nodeid: str, outcome: str, duration_s: float, text: str) -> None:
    """Append one line; the file survives even if the run does not."""
    line = {"test": nodeid, "outcome": outcome, "s": round(duration_s, 2), "text": text}
    with open(os.environ["PENSTOCK_SUITE_REPORT"], "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
