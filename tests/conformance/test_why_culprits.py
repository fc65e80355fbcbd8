"""Culprits of which `why` once named the wrong one or gave no figure; a live broker, own sockets.

What is true is known from outside: what the test did, counted and timed by its own client.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.outside.broker import LiveBroker
from bench.outside.wire import Connection, Consumer, Loop, Publisher
from tests.conformance.live import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, free_port()) as found:
        yield found


@pytest.fixture
def loop() -> Iterator[Loop]:
    found = Loop()
    try:
        yield found
    finally:
        found.close()


def milliseconds(text: str) -> float:
    """Of `one sync 15 ms`, `93 µs` or `1.2 s`."""
    found = re.search(r"one sync ([0-9.]+) (µs|ms|s)", text)
    assert found is not None, text
    return float(found[1]) * {"µs": 1e-3, "ms": 1.0, "s": 1e3}[found[2]]


def test_the_time_of_a_sync_is_that_of_the_window(broker: LiveBroker, loop: Loop) -> None:
    """A disk that was slow and is fast again was slow in the window all the same."""
    if not broker.has_slow_sync:
        pytest.skip("no C compiler")
    owner = Connection(loop, broker.port)
    owner.channel()
    owner.declare("kept", durable=True)
    Publisher(loop, broker.port, "kept", body=bytes(500), is_persistent=True, name="bulk")
    Consumer(loop, broker.port, "kept")
    broker.slow_disk(0.5)
    loop.run(2.0)
    before = broker.syncs()
    loop.run(4.0)
    broker.slow_disk(0.0)
    loop.run(1.5)
    after = broker.syncs()
    text = broker.why_text("store", "/", window_s=5)
    slow_ms = (after[1] - before[1]) / (after[0] - before[0]) * 1e3
    # The window of the answer begins and ends up to a second beside ours.
    assert slow_ms / 3 <= milliseconds(text) <= slow_ms * 3, (slow_ms, text)
    assert "is not blocked, it is what others wait for: disk at store /" in text
    assert " it holds          bulk" in text
    assert "faster disk" in text
