"""SIGHUP: what may change does, what is faulty changes nothing, the log is opened anew."""

import io
import json
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import pytest

from penstock.base.clock import ManualClock
from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.protocol import methods as m
from penstock.server.boot.log_lines import EVENTS_PER_S, LineLog, log_of
from penstock.server.boot.reload import LOG, SETTINGS, TLS, settings_to_change
from tests.unit.server.wire import Wire, running


def test_every_row_of_the_table_is_a_key_of_the_file() -> None:
    assert set(SETTINGS) | set(TLS) | set(LOG) <= {field.name for field in fields(Config)}


async def test_what_may_change_does_and_the_rest_waits(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        keys = {setting.key for setting in node.broker.settings.all()}
        of_stores = {"credit.queue_store", "credit.queue_store_bytes"}
        assert {key for key, _ in SETTINGS.values()} - of_stores <= keys
        log = LineLog(io.StringIO(), node.clock)
        node.log = log
        path = tmp_path / "penstock.log"
        wanted = replace(
            node.config, alarm_mode="all", consumer_timeout_ms=60_000, port=1, log_file=str(path)
        )
        node.reread = lambda: wanted
        node.hang_up()
        assert node.broker.settings.get("alarm.mode").read() == "all"
        assert node.broker.settings.get("consumer.timeout").read() == "1m"
        lines = path.read_text(encoding="utf-8")
        assert "alarm.mode targeted -> all" in lines
        assert "a restart is needed for port" in lines
        path.rename(tmp_path / "penstock.log.1")
        node.hang_up()
        lines = path.read_text(encoding="utf-8")
        assert "a restart is needed for port" in lines and "alarm.mode" not in lines
        later = replace(wanted, consumer_timeout_ms=90_000)
        no_file = str(tmp_path / "no" / "x.log")
        for other, fault in (
            (replace(later, alarm_mode="nonsense"), "alarm mode 'nonsense' is unknown"),
            (replace(later, log_level="nonsense"), "log_level = 'nonsense' is none of"),
            (replace(later, log_format="nonsense"), "log_format = 'nonsense' is none of"),
            (replace(later, log_file=no_file), "cannot write the log"),
        ):
            node.reread = partial(replace, other)
            node.hang_up()
            assert node.broker.settings.get("alarm.mode").read() == "all"
            assert node.broker.settings.get("consumer.timeout").read() == "1m", fault
            assert node.config == wanted
            lines = path.read_text(encoding="utf-8")
            assert fault in lines and "the settings of before stay in force" in lines

        def faulty() -> Config:
            raise OperatorError("penstock.toml is not TOML")

        node.reread = faulty
        node.hang_up()
        assert "the settings of before stay in force" in path.read_text(encoding="utf-8")
        log.open("")


async def test_the_log_says_once_who_came_what_went_wrong_and_who_left(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        stream = io.StringIO()
        node.broker.log = LineLog(stream, node.clock, "info", "json")
        node.broker.context.log = node.broker.log
        wire = await Wire.connect(node)
        await wire.open()
        wire.say(1, m.QueueDeclare("none", True))
        await wire.expect(m.ChannelClose)
        await wire.close()
        rows = [json.loads(line) for line in stream.getvalue().splitlines()]
        kinds = [row["event"] for row in rows if "event" in row]
        assert kinds[:2] == ["connection.opened", "channel.error"]
        error = rows[kinds.index("channel.error")]
        assert (error["code"], error["level"], error["channel"]) == (404, "warning", 1)


def test_a_storm_is_counted_and_not_written() -> None:
    stream, clock = io.StringIO(), ManualClock()
    log = LineLog(stream, clock)
    for number in range(EVENTS_PER_S + 300):
        log.event("connection.opened", f"client {number}")
    log.event("channel.error", "another kind")
    assert len(stream.getvalue().splitlines()) == EVENTS_PER_S + 1
    clock.advance(1_000_000_000)
    log.say_rest()
    log.say_rest()
    assert stream.getvalue().splitlines()[-1].endswith("and 300 more of connection.opened")


@pytest.mark.parametrize(
    ("level", "written"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 0)],
)
def test_levels(level: str, written: int) -> None:
    stream = io.StringIO()
    log = LineLog(stream, ManualClock(), level)
    say: list[Callable[[str], None]] = [log.debug, log.info, log.warning]
    for one in say:
        one("x")
    log.event("channel.error", "x")
    assert len(stream.getvalue().splitlines()) == written


def test_a_log_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="log_level = 'loud' is none of"):
        log_of(Config(log_level="loud"), ManualClock())
    with pytest.raises(OperatorError, match="cannot write the log"):
        log_of(Config(log_file=str(tmp_path / "no" / "x.log")), ManualClock())
    assert settings_to_change(Config(), replace(Config(), log_file="x", tls_cert="y")) == ([], [])
