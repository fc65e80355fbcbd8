"""Log lines: one each, with time and level, and nothing a peer said can break out of its line."""

import io

from penstock.base.clock import ManualClock
from penstock.base.printable import printable
from penstock.server.boot.log_lines import LineLog


def test_one_line_each() -> None:
    stream = io.StringIO()
    log = LineLog(stream, ManualClock())
    log.info("up")
    log.warning("memory alarm · 61 %")
    assert stream.getvalue().splitlines() == [
        "2023-11-14T22:13:21.000Z info    up",
        "2023-11-14T22:13:21.000Z warning memory alarm · 61 %",
    ]


def test_nobody_writes_lines_of_their_own() -> None:
    stream = io.StringIO()
    LineLog(stream, ManualClock()).info("user 'x\n2023 info all is well\x1b[2J': refused")
    assert len(stream.getvalue().splitlines()) == 1
    assert "\x1b" not in stream.getvalue()


def test_an_error_comes_with_its_traceback() -> None:
    stream = io.StringIO()
    try:
        raise ValueError("a\nb")
    except ValueError as error:
        LineLog(stream, ManualClock()).error("internal error", error)
    lines = stream.getvalue().splitlines()
    assert lines[0].endswith("error   internal error: ValueError: a\\nb")
    assert all(line.startswith("    ") for line in lines[1:]) and len(lines) > 2


def test_printable_keeps_what_is_printable() -> None:
    assert printable("déjà vu · ✔") == "déjà vu · ✔"
    assert printable("a\tb\x00") == "a\\tb\\x00"
