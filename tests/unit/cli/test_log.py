"""cli/log: following goes on where the last answer ended, and says what it has missed."""

import time

import pytest
from click.testing import CliRunner

from penstock.cli import log
from penstock.cli.asking import RunningBroker


class Ended(Exception):
    """No more answers are written down."""


def line(seq: int) -> dict[str, object]:
    return {"seq": seq, "time": "T", "level": "info", "event": "", "message": f"line {seq}"}


def test_following_goes_on_where_the_last_answer_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, object]] = [
        {"lines": [line(7)], "next": 8, "missed": 0},
        {"lines": [], "next": 8, "missed": 0},
        {"lines": [line(12)], "next": 13, "missed": 4},
    ]
    asked: list[dict[str, object]] = []
    waited: list[float] = []

    def ask(_broker: RunningBroker, request: dict[str, object]) -> dict[str, object]:
        asked.append(request)
        if not answers:
            raise Ended
        return answers.pop(0)

    monkeypatch.setattr(RunningBroker, "ask", ask)
    monkeypatch.setattr(time, "sleep", waited.append)
    words = ["--follow", "--level", "info", "-n", "1", "--control", "/nowhere"]
    done = CliRunner().invoke(log.log, words)
    assert isinstance(done.exception, Ended)
    assert done.stdout == "T info    line 7\nT info    line 12\n"
    assert "4 lines went before they could be shown" in done.stderr
    assert asked[0] == {"op": "log", "level": "info", "last": 1}
    assert [one.get("since") for one in asked[1:]] == [8, 8, 13]
    assert waited == [log.FOLLOW_S], "only where nothing has come"


def test_what_is_followed_as_csv_has_one_head(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[dict[str, object]] = [
        {"lines": [line(7)], "next": 8, "missed": 0},
        {"lines": [line(8)], "next": 9, "missed": 0},
    ]

    def ask(_broker: RunningBroker, _request: dict[str, object]) -> dict[str, object]:
        if not answers:
            raise Ended
        return answers.pop(0)

    monkeypatch.setattr(RunningBroker, "ask", ask)
    words = ["--follow", "--format", "csv", "--control", "/nowhere"]
    done = CliRunner().invoke(log.log, words)
    head, *rows = done.stdout.splitlines()
    assert head.startswith("seq,")
    assert [row.partition(",")[0] for row in rows] == ["7", "8"]
