"""The flight recorder of a running broker: slices, records, incidents, and what it may not cost."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.config import UserConfig
from penstock.base.errors import OperatorError
from penstock.base.limits import INCIDENTS_KEPT
from penstock.broker.admin import views
from penstock.broker.admin.view_memory import ViewMemory
from penstock.broker.broker import Broker
from penstock.protocol import methods as m
from penstock.server.boot.node import Node
from penstock.server.recorder import service as flight_deck
from penstock.server.recorder.service import RecorderService, without_secrets
from penstock.telemetry.record_file import FlightRecord, decode_record
from penstock.telemetry.snapshots import ActorSnapshot
from tests.unit.server.wire import Wire, running, until


async def written(deck: RecorderService, number: int) -> FlightRecord:
    await until(lambda: deck.kept(number).bytes_now() is not None)
    data = deck.kept(number).bytes_now()
    assert data is not None
    return decode_record(gzip.decompress(data).splitlines())


@pytest.fixture
def _in_one_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round is over at once, however slowly the machine runs."""
    monkeypatch.setattr(flight_deck, "SLICE_NS", 1 << 60)


in_one_slice = pytest.mark.usefixtures("_in_one_slice")


@in_one_slice
async def test_a_record_has_events_history_and_configuration_but_no_secret(tmp_path: Path) -> None:
    user = UserConfig("guest", "guest-PASSWORD", False)
    async with running(tmp_path, users=(user,)) as node:
        # Another round would be in the history, and not in the record.
        for timer in node.ticks:
            timer.cancel()
        wire = await Wire.connect(node)
        node.broker.recorder.record(0, "conn:a", "queue:/q", "credit", 0)
        node.tick()
        kept = node.flight.save(600.0, "asked for")
        record = await written(node.flight, kept.number)
        assert [one.actor for one in record.events] == ["conn:a"]
        assert dict(record.history.over(10)) == dict(node.history.over(10))
        assert record.header.config["users"] == [
            {"name": "guest", "is_loopback_only": False, "tags": [], "hashing": ""}
        ]
        assert record.header.settings == {one.key: one.read() for one in node.broker.settings.all()}
        data = kept.bytes_now()
        assert data is not None and b"PASSWORD" not in gzip.decompress(data)
        await wire.close()


def test_secrets_are_removed_at_any_depth() -> None:
    config = {"a": [{"password": 1, "x": {"api_token": 2, "y": (3,)}}], "PrivateKey": 4}
    assert without_secrets(config) == {"a": [{"x": {"y": [3]}}]}


async def test_a_large_round_is_taken_in_slices_and_is_complete_at_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A nanosecond has passed after every step, so a slice is one of them."""
    monkeypatch.setattr(flight_deck, "SLICE_NS", 1)
    async with running(tmp_path) as node:
        # Its own rounds, one a second, would be in the way of this one.
        for timer in node.ticks:
            timer.cancel()
        wire = await Wire.opened(node)
        for number in range(20):
            wire.say(1, m.QueueDeclare(f"q{number}"))
            await wire.expect(m.QueueDeclareOk)
        before = node.flight.rounds
        taken: list[str] = []
        node.flight.tick(lambda one: taken.append(one.actor))
        assert node.flight.rounds == before, "one slice is not enough"
        node.flight.tick()
        assert node.flight.skipped == 1
        await until(lambda: node.flight.rounds > before)
        expected = {one.actor for one in views.each_snapshot(node.broker)}
        assert set(taken) == expected and len(taken) == len(expected)
        assert set(node.history.over(1)) >= expected
        await wire.close()


async def test_what_goes_while_a_round_is_taken_does_no_harm(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        wires = [await Wire.connect(node) for _ in range(3)]
        for number, wire in enumerate(wires):
            await wire.open()
            wire.say(1, m.QueueDeclare(f"q{number}", exclusive=True))
            await wire.expect(m.QueueDeclareOk)
        walk = views.each_snapshot(node.broker)
        seen = [next(walk).actor for _ in range(3)]
        for wire in wires[1:]:
            await wire.close()
        await until(lambda: len(node.broker.connections) == 1)
        seen += [one.actor for one in walk]
        assert len(seen) == len(set(seen))
        assert "queue:/q0" in seen and "queue:/q2" not in seen
        await wires[0].close()


def broken(broker: Broker, memory: ViewMemory | None = None) -> Iterator[ActorSnapshot]:
    yield next(views.each_snapshot(broker))
    raise KeyError("a bug")


@in_one_slice
async def test_a_round_that_fails_is_given_up_and_the_next_one_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as node:
        with monkeypatch.context() as patched:
            patched.setattr(flight_deck, "snapshot_steps", broken)
            with pytest.raises(KeyError):
                node.flight.tick()
        before = node.flight.rounds
        node.flight.tick()
        assert node.flight.rounds == before + 1


def ring(node: Node, times: int) -> None:
    """Rounds in which an alarm is set and cleared again, a minute apart."""
    for _ in range(times):
        node.flight.freezer._copied_ns = None
        node.broker.set_alarm("disk", "a test")
        node.flight.tick()
        node.broker.clear_alarm("disk")
        node.flight.tick()


@in_one_slice
async def test_an_alarm_keeps_a_record_and_only_the_newest_are_kept(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        ring(node, 1)
        [incident] = node.flight.incidents
        assert incident.why == "disk alarm"
        record = await written(node.flight, incident.number)
        assert record.header.why == "disk alarm"
        ring(node, INCIDENTS_KEPT.default + 1)
        numbers = [one.number for one in node.flight.incidents]
        assert len(numbers) == INCIDENTS_KEPT.default and incident.number not in numbers
        with pytest.raises(OperatorError, match="no flight record 1 is kept; there are: 3, 4"):
            node.flight.kept(incident.number)


async def test_without_recording_and_accounting_the_broker_works(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, recorder_events=0, time_accounting=False) as node:
        wire = await Wire.opened(node)
        node.tick()
        assert node.broker.recorder.next_seq == 0
        [connection] = node.broker.connections.values()
        assert connection.time.totals(node.clock.monotonic_ns())[1:] == (0, 0, 0)
        await wire.close()
