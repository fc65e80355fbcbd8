"""Records, events and log lines of several workers, which are whole nodes here."""

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.base.errors import OperatorError
from penstock.server.boot.node import Node
from penstock.server.workers.gather import Gather
from penstock.server.workers.worker_client import WorkerClient
from tests.patience import PATIENCE_S
from tests.unit.server.wire import Wire, running
from tests.unit.server.workers.workforce import Placed, Row, Workforce, workforce

COUNT = 3


class Nodes:
    """COUNT of them."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.client = WorkerClient([str(one.control.path) for one in nodes if one.control])
        self.gather = Gather(self.client, Placed(COUNT, {"/": 0, "a": 1, "b": 2}))

    async def ask(self, op: str, do: str = "", **fields: Any) -> Row:
        answer = await self.gather.answer({"op": op, "do": do, **fields})
        found: Row = msgspec.json.decode(msgspec.json.encode(answer))
        return found


@asynccontextmanager
async def nodes(directory: Path) -> AsyncIterator[Nodes]:
    async with AsyncExitStack() as stack:
        made = []
        for worker, vhost in enumerate(("/", "a", "b")):
            place = directory / str(worker)
            place.mkdir()
            made.append(await stack.enter_async_context(running(place, vhosts=(vhost, "/"))))
        found = Nodes(made)
        yield found
        found.client.close()
        await asyncio.sleep(0)


async def fetched(force: Nodes, number: int) -> bytes:
    data = b""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            part = await force.ask("record", "part", number=number, offset=len(data))
            if part["is_ready"]:
                data += b64decode(part["data"])
                if len(data) >= part["bytes"]:
                    return data
            await asyncio.sleep(0.01)


async def test_a_record_of_each_worker_has_a_number_of_its_own(tmp_path: Path) -> None:
    async with nodes(tmp_path) as force:
        assert (await force.ask("record", "round"))["rounds"] > 0
        # One worker has saved more than the others.
        await force.client.ask(1, {"op": "record", "do": "save", "last_s": 5})
        saved = await force.ask("record", "save", last_s=5)
        records = saved["records"]
        assert [one["worker"] for one in records] == [0, 1, 2]
        numbers = [one["number"] for one in records]
        assert saved["number"] == numbers[0] and len(set(numbers)) == COUNT
        for worker, number in enumerate(numbers):
            assert number % COUNT == worker
            whole = await fetched(force, number)
            own = await force.client.ask(
                worker, {"op": "record", "do": "part", "number": number // COUNT}
            )
            assert len(whole) == own["bytes"] > 100
        status = await force.ask("record", "status")
        one = await force.client.ask(0, {"op": "record", "do": "status"})
        assert list(status) == list(one) and status["events_max"] == COUNT * one["events_max"]
        for node in force.nodes[:2]:
            node.flight.save(5.0, "by itself")


async def test_incidents_say_whose_they_are(tmp_path: Path) -> None:
    async with nodes(tmp_path) as force:
        for worker in (2, 0):
            await asyncio.sleep(0.002)
            service = force.nodes[worker].flight
            service.incidents.append(service.save(5.0, f"worker {worker}"))
        incidents = (await force.ask("record", "list"))["incidents"]
        assert [(one["worker"], one["why"]) for one in incidents] == [
            (2, "worker 2"), (0, "worker 0")
        ]  # fmt: skip
        chosen = incidents[0]["number"]
        found = await force.ask("record", "save", incident=chosen)
        assert found == {"number": chosen}
        assert await fetched(force, chosen)
        # Said of the number that was asked for, not of a worker's own.
        with pytest.raises(OperatorError, match="no flight record 77 is kept"):
            await force.ask("record", "save", incident=77)


async def test_events_are_in_one_order(tmp_path: Path) -> None:
    async with nodes(tmp_path) as force:
        wires = []
        for _ in range(2):
            for node in force.nodes:
                wires.append(await Wire.opened(node))
        found = await force.ask("events", last=1000)
        times = [one["t"] for one in found["events"]]
        assert times == sorted(times) and len(times) == len(found["lines"])
        assert {one["worker"] for one in found["events"]} == {0, 1, 2}
        newest = await force.ask("events", last=4)
        assert newest["events"] == found["events"][-4:]
        assert newest["lines"] == found["lines"][-4:]
        assert (await force.ask("events", since=found["next"]))["events"] == []
        wires.append(await Wire.opened(force.nodes[1]))
        later = await force.ask("events", since=found["next"])
        assert {one["worker"] for one in later["events"]} == {1}
        all_of_them = await force.ask("events", since=0)
        assert all_of_them["events"] == found["events"] + later["events"]
        one = await force.ask("events", worker=1, last=2)
        assert len(one["events"]) == 2 and isinstance(one["next"], int)
        for fields, said in (
            ({"worker": 3}, "worker = 3: must be 0..2"),
            ({"since": "1,2"}, "what an answer of 3 workers called `next`"),
            ({"since": 5}, "what an answer of 3 workers called `next`"),
        ):
            try:
                await force.ask("events", **fields)
            except OperatorError as error:
                assert said in str(error)
            else:
                raise AssertionError(fields)
        for wire in wires:
            wire.writer.close()


async def test_more_events_than_one_answer_has_come_in_order(tmp_path: Path) -> None:
    async with nodes(tmp_path) as force:
        for turn in range(1200):
            for node in force.nodes[: 1 + (turn % 3 == 0)]:
                node.broker.recorder.record(0, f"a{turn}", "", "", 0)
        seen: list[Row] = []
        since: object = 0
        answers = 0
        while True:
            answer = await force.ask("events", since=since)
            if not answer["events"]:
                break
            answers += 1
            seen += answer["events"]
            since = answer["next"]
        assert answers >= 2
        times = [one["t"] for one in seen]
        assert times == sorted(times)
        own = [(one["worker"], one["seq"]) for one in seen]
        assert len(own) == len(set(own)) >= 1600


def write(force: Workforce, worker: int, ms: int, text: str) -> None:
    force.logs[worker].add(ms, 1, "kind", text)


async def test_the_log_is_one(tmp_path: Path) -> None:
    async with workforce(tmp_path, ("/",), ("a",)) as force:
        for number in range(10):
            write(force, number % 2, 1000 + number, f"line {number}")
        answer = await force.ask("log", last=4)
        assert [one["message"] for one in answer["lines"]] == [f"line {n}" for n in range(6, 10)]
        assert answer["next"] == "5,5" and answer["missed"] == 0
        write(force, 1, 2000, "late")
        later = await force.ask("log", since=answer["next"])
        assert [one["message"] for one in later["lines"]] == ["late"]
        texts: list[str] = []
        since: object = 0
        while True:
            answer = await force.ask("log", since=since, limit=2)
            if not answer["lines"]:
                break
            texts += [one["message"] for one in answer["lines"]]
            since = answer["next"]
        assert texts == [*(f"line {n}" for n in range(10)), "late"]
