"""Several brokers in one process, each asked over its own control socket, and a Gather above."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.recent_lines import RecentLines
from penstock.server.control.control_socket import ControlSocket
from penstock.server.control.questions import Questions
from penstock.server.recorder.service import RecorderService
from penstock.server.workers.gather import Gather
from penstock.server.workers.worker_client import WorkerClient
from tests.unit.broker.peer import Bed

Row = dict[str, Any]


class Placed:
    """Who has which virtual host. log: what was changed, in order; fault: why nothing can be
    changed now, "" if it can."""

    def __init__(self, count: int, places: dict[str, int]) -> None:
        self.count = count
        self.places = places
        self.log: list[str] = []
        self.fault = ""

    def worker_of(self, vhost: str) -> int:
        return self.places.get(vhost, -1)

    def vhosts(self) -> dict[str, int]:
        return dict(self.places)

    async def add(self, vhost: str) -> int:
        counts = [0] * self.count
        for worker in self.places.values():
            counts[worker] += 1
        self.places[vhost] = counts.index(min(counts))
        self.log.append(f"place {vhost}")
        return self.places[vhost]

    async def spread(self) -> None:
        """Nobody else has to hear of it."""

    async def drop(self, vhost: str) -> None:
        if self.fault:
            raise OperatorError(self.fault)
        del self.places[vhost]
        self.log.append(f"forget {vhost}")


class Workforce:
    """vhosts: of each worker. The first has `/`."""

    def __init__(self, directory: Path, vhosts: Sequence[Sequence[str]], **settings: Any) -> None:
        self.directory = directory
        self.beds = [Bed(vhosts=tuple(names), **settings) for names in vhosts]
        places = {name: worker for worker, names in enumerate(vhosts) for name in names}
        self.places = Placed(len(vhosts), places)
        self.questions: list[Questions] = []
        self.sockets: list[ControlSocket] = []
        self.logs = [RecentLines(100) for _ in vhosts]
        for worker, bed in enumerate(self.beds):
            loop = cast(asyncio.AbstractEventLoop, None)
            service = RecorderService(bed.broker, loop, "boot")
            log = self.logs[worker]
            asked = Questions(bed.broker, service, bed.run, lambda: "", recent=log)
            self.questions.append(asked)
            path = str(directory / f"worker-{worker}.sock")
            self.sockets.append(ControlSocket(path, asked.answer, asked.note, asked.is_change))
        self.client = WorkerClient([str(one.path) for one in self.sockets])
        self.gather = Gather(self.client, self.places)

    async def ask(self, op: str, do: str = "", **fields: Any) -> Row:
        """The answer of all workers, as one who asks reads it. Raises: OperatorError."""
        question = {"op": op, **({"do": do} if do else {}), **fields}
        answer = await self.gather.answer(question)
        found: Row = msgspec.json.decode(msgspec.json.encode(answer))
        return found

    async def ask_one(self, worker: int, op: str, do: str = "", **fields: Any) -> Row:
        """That of one worker."""
        return await self.client.ask(worker, {"op": op, **({"do": do} if do else {}), **fields})

    async def refusal(self, op: str, do: str = "", **fields: Any) -> str:
        """The words of an answer that is none."""
        try:
            found = await self.ask(op, do, **fields)
        except OperatorError as error:
            return str(error)
        raise AssertionError(f"answered: {found}")

    async def stop(self, worker: int) -> None:
        """It ends, and its connections with it."""
        await self.sockets[worker].close()
        self.client.close()

    def bed_of(self, vhost: str) -> Bed:
        return self.beds[self.places.places[vhost]]


@asynccontextmanager
async def workforce(
    directory: Path, *vhosts: Sequence[str], **settings: Any
) -> AsyncIterator[Workforce]:
    """vhosts: of each worker. settings: of Config."""
    force = Workforce(directory, vhosts, **settings)
    for one in force.sockets:
        await one.start()
    try:
        yield force
    finally:
        force.client.close()
        await asyncio.sleep(0)
        for one in force.sockets:
            await one.close()
