"""{"op": "log"}: the newest lines of the broker's log, in pages, with a bound."""

import io
from collections.abc import Generator

import pytest

from penstock.base.clock import ManualClock
from penstock.base.errors import OperatorError
from penstock.base.recent_lines import LETTERS_MAX
from penstock.base.steps import whole
from penstock.server.boot.log_lines import LineLog
from penstock.server.control.questions import Questions
from penstock.server.control.questions_log import LINES_MAX
from tests.unit.broker.peer import Bed
from tests.unit.server.control.asked import questions


def log_of(most: int, level: str = "info", form: str = "text") -> tuple[LineLog, Questions]:
    log = LineLog(io.StringIO(), ManualClock(), level, form, most)
    return log, questions(Bed().broker, log.recent)


def asked(found: Questions, **fields: object) -> dict[str, object]:
    reply = found.answer({"op": "log", **fields})
    answer = whole(reply) if isinstance(reply, Generator) else reply
    assert isinstance(answer, dict)
    return answer


def said(answer: dict[str, object]) -> list[str]:
    lines = answer["lines"]
    assert isinstance(lines, list)
    return [str(line["message"]) for line in lines]


def test_the_newest_with_their_time_and_level() -> None:
    log, found = log_of(10)
    for number in range(3):
        log.info(f"line {number}")
    log.event("connection.opened", "web-7 has come", {"user": "guest"})
    answer = asked(found, last=2)
    assert said(answer) == ["line 2", "web-7 has come"]
    assert answer["lines"] == [
        {
            "seq": 2, "time": "2023-11-14T22:13:21.000Z", "level": "info", "event": "",
            "message": "line 2",
        },
        {
            "seq": 3, "time": "2023-11-14T22:13:21.000Z", "level": "info",
            "event": "connection.opened", "message": "web-7 has come",
        },
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["text", "json"])
def test_of_a_level_and_above(form: str) -> None:
    """What the log does not write is not kept either."""
    log, found = log_of(100, "info", form)
    log.debug("not written")
    log.info("as usual")
    log.warning("look")
    try:
        raise ValueError("bad")
    except ValueError as error:
        log.error("internal error", error)
    assert said(asked(found, level="debug"))[:2] == ["as usual", "look"]
    assert said(asked(found, level="warning"))[0] == "look"
    errors = said(asked(found, level="error"))
    assert errors[0] == "internal error: ValueError: bad" and "Traceback" in errors[1]


def test_pages_go_on_where_the_last_one_ended() -> None:
    log, found = log_of(5000)
    for number in range(2500):
        (log.warning if number % 2 else log.info)(str(number))
    seen, since = [], 0
    while len(page := said(answer := asked(found, since=since, limit=400, level="warning"))) > 0:
        seen += page
        since = int(str(answer["next"]))
    assert seen == [str(number) for number in range(1, 2500, 2)]
    assert answer["next"] == 2500 and answer["missed"] == 0
    log.warning("new")
    assert said(asked(found, since=since)) == ["new"]


def test_the_oldest_goes_and_is_counted() -> None:
    log, found = log_of(10)
    for number in range(25):
        log.info(str(number))
    answer = asked(found, since=3)
    assert said(answer) == [str(number) for number in range(15, 25)] and answer["missed"] == 12
    assert said(asked(found, last=LINES_MAX)) == said(answer)


def test_none_are_kept_where_none_are_wanted() -> None:
    log, found = log_of(0)
    log.info("gone")
    assert asked(found, since=0) == {"lines": [], "next": 1, "missed": 1}


def test_a_line_has_a_bound_and_cannot_become_two() -> None:
    log, found = log_of(10)
    log.info("x" * 1_000_000)
    log.info("user 'a\n2023 all is well\x1b[2J'")
    long, hostile = said(asked(found))
    assert len(long) == LETTERS_MAX and long.endswith("…")
    assert hostile == "user 'a\\n2023 all is well\\x1b[2J'"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"level": "loud"}, "level 'loud' is unknown; one of: debug, info, warning, error"),
        ({"last": 0}, "last = 0: must be 1..1000"),
        ({"last": 1001}, "must be 1..1000"),
        ({"last": True}, "last = True"),
        ({"since": -1}, "since = -1"),
        ({"since": "x"}, "since = 'x'"),
        ({"since": 0, "limit": 0}, "limit = 0"),
    ],
)
def test_bad_values_are_refused(fields: dict[str, object], words: str) -> None:
    _, found = log_of(10)
    with pytest.raises(OperatorError, match=words.replace("..", r"\.\.")):
        asked(found, **fields)
