"""No answer about very many actors is made in one go: between two steps so much is done and no
more, however many actors there are.

Counted in lines of Python that are executed, not in time: the same on every machine. What C does
at one stroke (a dict that grows, a list that is sorted) is not seen by this.
"""

import sys
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

from penstock.base.steps import whole
from penstock.broker.admin import flow_top
from penstock.explain.asking import Question, answering
from penstock.explain.naming import naming
from penstock.telemetry.flight import FlightHistory
from tests.unit.broker.peer import Bed
from tests.unit.explain.crowd import history

QUEUES, CONNECTIONS = 600, 300
LINES_MAX = 15_000
"""Between two steps; the most is about 10,000, in less than a millisecond."""
QUESTIONS = (
    ("publish", ""),
    ("not", ""),
    ("connection", "app-10"),
    ("connection", "app-11"),
    ("connection", "10.0.0.1:5000"),
    ("connection", "zzz"),
    ("channel", "app-10/1"),
    ("queue", "q00000"),
    ("queue", "q00011"),
    ("queue", "q0001x"),
    ("consumer", "c0"),
    ("consumer", "c7@app-0"),
    ("consumer", "nobody"),
    ("memory", ""),
)


@pytest.fixture(scope="module")
def crowd() -> FlightHistory:
    return history(QUEUES, CONNECTIONS)


def most_lines(steps: Generator[float, None, object]) -> int:
    """The most lines that were executed between two steps, or before the end."""
    count = most = 0

    def trace(_frame: FrameType, event: str, _arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    while True:
        count = 0
        sys.settrace(trace)
        try:
            next(steps)
        except StopIteration:
            return max(most, count)
        finally:
            sys.settrace(before)
        most = max(most, count)


@pytest.mark.parametrize(("kind", "name"), QUESTIONS)
def test_why(crowd: FlightHistory, kind: str, name: str) -> None:
    assert most_lines(answering(crowd, Question(kind, name))) < LINES_MAX


@pytest.mark.parametrize("sort", ["blocked", "rate", "name"])
def test_flow_top(crowd: FlightHistory, sort: str) -> None:
    windows = whole(naming(crowd.over(10.0)))
    steps = flow_top.frame(Bed().broker, windows, 10.0, sort, 100)
    assert most_lines(steps) < LINES_MAX


def test_many_lines_are_seen(crowd: FlightHistory) -> None:
    def in_one_go() -> Generator[float, None, object]:
        yield 0.0
        return whole(answering(crowd, Question("queue", "q00000")))

    assert most_lines(in_one_go()) > 5 * LINES_MAX


@pytest.mark.parametrize("kind", ["queue", "publish", "memory"])
def test_work_grows_no_faster_than_there_are_actors(kind: str) -> None:
    def steps(queues: int, connections: int) -> int:
        question = Question(kind, "q00010" if kind == "queue" else "")
        return sum(1 for _ in answering(history(queues, connections), question))

    assert steps(1200, 600) < 2.2 * steps(600, 300)
