"""Queries beside each other: one that is away is waited for; and Ctrl-C, the first and the second
time."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from penstock.base.errors import OperatorError
from penstock.spark.input.pipeline_input import FileInput, as_inputs
from penstock.spark.input.stream_input import InputAway
from penstock.spark.job import query as query_module
from penstock.spark.job.query import Queries, interrupts
from penstock.spark.tables.store import open_store


@pytest.fixture
def _heeded() -> Iterator[None]:
    """A shell that starts this in the background has Ctrl-C ignored, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_heeded")
def test_the_first_interrupt_asks_and_the_second_interrupts() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with interrupts() as is_asked:
        os.kill(os.getpid(), signal.SIGINT)
        assert is_asked.wait(5)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            # It may be a moment until the main thread is told.
            threading.Event().wait(5)
    assert before == (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM))


class Broker(FileInput):
    """An input that is there at some of the times at which it is looked for."""

    def __init__(self, directory: Path, there: str) -> None:
        super().__init__(directory)
        self.there = list(there)
        self.starts = 0

    def query(self) -> str:
        """Raises: InputAway."""
        state = self.there.pop(0)
        if state == "-":
            raise InputAway(f"{self.directory.name} is away")
        if state == "!":
            raise KeyboardInterrupt
        self.starts += 1
        return super().query()


@pytest.fixture
def queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Of brokers that go away again as soon as they are there, unless they are there for good."""

    def start(self: Any, trigger: dict[str, Any]) -> None:
        self.stays = not self._place.there

    def check(self: Any) -> None:
        if not self.stays:
            raise InputAway(f"{self._place.directory.name} has gone")

    monkeypatch.setattr(query_module, "LOOK_S", 0.0)
    monkeypatch.setattr(query_module._Query, "start", start)
    monkeypatch.setattr(query_module._Query, "check", check)
    monkeypatch.setattr(query_module._Query, "is_active", property(lambda self: self.stays))
    none: Any = None
    return lambda *places: Queries(none, places, open_store(tmp_path / "tables"))


def test_a_broker_that_is_away_is_waited_for_and_told_once(queries: Any, tmp_path: Path) -> None:
    """While the other goes on; each time anew."""
    calm, restless = Broker(tmp_path / "calm", "+"), Broker(tmp_path / "restless", "+--+-!")
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        queries(calm, restless).follow(0.0, lambda count: None, said.append)
    assert said == ["restless has gone; it is tried again every 0 s"] * 2
    assert (calm.starts, restless.starts) == (1, 2)


def test_a_broker_that_never_was_there_is_not_waited_for(queries: Any, tmp_path: Path) -> None:
    with pytest.raises(InputAway):
        queries(Broker(tmp_path / "never", "-")).follow(0.0, lambda count: None)


def test_each_directory_has_a_query_of_its_own(tmp_path: Path) -> None:
    """Their traces are called the same."""
    inputs = [FileInput(tmp_path / name) for name in ("a/events", "b/events")]
    assert len({one.query() for one in inputs}) == 2
    assert all(one.query().startswith("files-events-") for one in inputs)
    with pytest.raises(OperatorError, match="is an input twice"):
        as_inputs([FileInput(tmp_path / "a"), FileInput(tmp_path / "b" / ".." / "a")])
