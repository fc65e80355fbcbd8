"""`penstock why`, `record` and `replay` against a running broker, as a person would type them."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from penstock.cli.record import write_private
from penstock.cli.replay import read_record
from tests.unit.server.wire import running
from tests.unit.telemetry.records import lines


def call(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def said(result: Result) -> str:
    return result.output + (str(result.exception) if result.exception else "")


def test_a_record_is_saved_for_its_owner_and_answers_as_the_broker_does(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as node:
            # The record and the broker are asked about the same rounds, however late.
            for timer in node.ticks:
                timer.cancel()
            place = ("--control", str(tmp_path / "control.sock"))
            node.broker.recorder.record(3, "conn:a", "", "", 0)
            node.tick()
            while node.flight.rounds == 0:
                await asyncio.sleep(0.001)
            file = tmp_path / "a.pflow"
            ask = asyncio.to_thread
            saved = await ask(call, "record", "save", "-o", str(file), *place)
            assert saved.exit_code == 0, said(saved)
            assert f"penstock replay {file}" in saved.output
            assert stat.S_IMODE(os.stat(file).st_mode) == 0o600
            again = await ask(call, "record", "save", "-o", str(file), *place)
            assert isinstance(again.exception, OperatorError) and "--force" in said(again)
            for kind in ("publish", "memory", "not"):
                live = await ask(call, "why", kind, *place, "--format", "json")
                offline = call("replay", str(file), "why", kind, "--format", "json")
                assert json.loads(live.output) == json.loads(offline.output)
                assert live.exit_code == offline.exit_code == 0
            assert (
                "a                            is up" in call("replay", str(file), "events").output
            )
            assert "covers" in call("replay", str(file)).output
            unknown = await ask(call, "why", "queue", "nope", *place)
            assert unknown.exit_code == 2 and "no queue is called 'nope'" in unknown.output
            status = await ask(call, "record", "status", *place)
            assert "events     1 of 65 536 kept" in status.output
            listed = await ask(call, "record", "list", *place)
            assert listed.output == "none were kept\n"
            events = await ask(call, "record", "events", "--format", "json", *place)
            assert json.loads(events.output)["kind"] == "actor_up"
            in_words = await ask(call, "record", "events", *place)
            assert in_words.output.endswith("a                            is up\n")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"", "ends too early"), (b"nonsense", "not a flight record"), (b"{}", "first line")],
)
def test_what_is_no_record_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    path = tmp_path / "x.pflow"
    path.write_bytes(data)
    with pytest.raises(OperatorError, match=words) as raised:
        read_record(path)
    assert str(path) in str(raised.value)
    with pytest.raises(OperatorError, match="cannot read"):
        read_record(tmp_path / "missing")


def test_a_record_that_was_unpacked_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(lines(90)))
    shown = call("replay", str(path), "why", "connection", "web-7")
    assert shown.exit_code == 3 and "◀ root cause" in shown.output


def test_a_file_is_written_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot write"):
        write_private(tmp_path / "no" / "x", b"data")
    assert list(tmp_path.iterdir()) == []


def test_the_last_events_are_the_newest_however_many(tmp_path: Path) -> None:
    """An answer has 1,000: of 1,500 the first 1,000 were shown, and the newest were not."""

    async def scenario() -> None:
        async with running(tmp_path) as node:
            for number in range(2_000):
                node.broker.recorder.record(3, f"conn:c{number}", "", "", 0)
            place = ("--control", str(tmp_path / "control.sock"))
            said = await asyncio.to_thread(call, "record", "events", "--last", "1500", *place)
            shown = [line.split()[1] for line in said.output.splitlines()]
            assert shown == [f"c{number}" for number in range(500, 2_000)]

    asyncio.run(scenario())
