"""The processes of one run: broker and clients, started, watched and stopped in order."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.base.errors import OperatorError
from penstock.demo.children import HOST, Child, Children, connected_from
from penstock.demo.scenario import (
    CONSUMERS,
    DRAIN_SECONDS_MAX,
    PLAN_FILE,
    PUBLISHERS,
    QUEUES,
    DemoPlan,
)

if TYPE_CHECKING:
    from aio_pika.abc import AbstractChannel

READY_SECONDS_MAX: Final = 90.0
STOP_CLIENT_SECONDS_MAX: Final = 30.0
# Small enough to be reached within the first seconds of the slow phase, large enough for a burst.
QUEUE_DEPTH_BYTES: Final = 1024 * 1024
GO_AHEAD_NS: Final = 300_000_000

_WORKERS: Final = "penstock.demo.workers"


@dataclass(slots=True)
class Fleet:
    """Everything that runs. directory: for traces and logs; events: for the broker's events."""

    children: Children
    directory: Path
    broker: Child | None = None
    publishers: list[Child] = field(default_factory=list)
    consumers: list[Child] = field(default_factory=list)

    async def start_broker(self, port: int) -> None:
        """Start a broker and wait until it accepts connections. Raises: OperatorError."""
        arguments = ["-m", "penstock.cli.main", "serve", "--memory", "--port", str(port)]
        arguments += ["--events", str(self.directory), "--queue-depth", str(QUEUE_DEPTH_BYTES)]
        broker = await self.children.start("broker", arguments)
        self.broker = broker
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not await _accepts(port):
            if broker.exit_status is not None or time.monotonic() > deadline:
                raise OperatorError(
                    f"the broker did not start on port {port}:\n{broker.log_tail()}"
                )
            await asyncio.sleep(0.05)

    async def start_clients(self, plan: DemoPlan) -> None:
        """Start all clients and wait until each is connected. Raises: OperatorError."""
        plan_file = self.directory / PLAN_FILE
        plan.write(plan_file)
        consumers = [(f"aio-pika-orders-{n + 1}", "aio_pika_consumer") for n in range(CONSUMERS)]
        consumers += [("celery-worker", "celery_worker")]
        publishers = [(f"pika-orders-{n + 1}", "pika_publisher") for n in range(PUBLISHERS)]
        publishers += [("celery-sender", "celery_sender"), ("aio-pika-mail", "aio_pika_mail")]
        for names, fleet in ((consumers, self.consumers), (publishers, self.publishers)):
            for name, module in names:
                arguments = ("-m", f"{_WORKERS}.{module}", str(plan_file), name)
                fleet.append(await self.children.start(name, arguments))
        for child in self.clients():
            await self.children.until(child, child.is_ready.is_set, READY_SECONDS_MAX, "connected")

    def clients(self) -> list[Child]:
        return [*self.consumers, *self.publishers]

    def names(self, port: int) -> dict[str, str]:
        """Local address of each client's connection -> name of the client; call while they run."""
        found: dict[str, str] = {}
        for child in self.clients():
            addresses = connected_from(child.pid, port)
            for number, address in enumerate(addresses, 1):
                several = f"#{number}" if len(addresses) > 1 else ""
                found[address] = child.name + several
        return found

    def go(self) -> int:
        """Start the scenario for all clients; returns its start in monotonic ns."""
        start_ns = time.monotonic_ns() + GO_AHEAD_NS
        for child in self.clients():
            child.tell(f"go {start_ns}")
        return start_ns

    def total(self, name: str) -> int:
        """One number, added up over all clients."""
        return sum(child.status.get(name, 0) for child in self.clients())

    def check(self) -> None:
        """Raises: OperatorError when the broker or a client failed."""
        for child in (*self.clients(), *([self.broker] if self.broker else [])):
            status = child.exit_status
            if status is not None and (status != 0 or child is self.broker):
                raise OperatorError(
                    f"{child.name} ended with status {status} during the run:\n{child.log_tail()}"
                )

    def is_drained(self) -> bool:
        """Whether all that was confirmed was delivered and every publisher is done.

        The mail client publishes and consumes, so it does not end by itself."""
        done = all(child.exit_status is not None for child in self.publishers[:-1])
        return done and self.total("delivered") >= self.total("confirmed")

    async def stop_clients(self) -> None:
        """Ask the clients to finish and wait for them. Raises: OperatorError if one failed, or had
        to be killed."""
        clients = [child for child in self.clients() if child.exit_status is None]
        for child in clients:
            child.close_input()
        waits = (child.wait(STOP_CLIENT_SECONDS_MAX) for child in clients)
        ends = await asyncio.gather(*waits)
        self.check()
        for child, status in zip(clients, ends, strict=True):
            await child.stop()
            if status is None:
                # Its trace may not be whole, and would tell of losses that never were.
                raise OperatorError(
                    f"{child.name} did not end within {STOP_CLIENT_SECONDS_MAX:.0f} s after it "
                    f"was asked to:\n{child.log_tail()}"
                )

    async def stop_broker(self) -> int:
        """SIGTERM; returns its exit status, 0 for a clean end."""
        return await self.broker.stop() if self.broker else 0


def drain_deadline_ns(start_ns: int, plan: DemoPlan) -> int:
    """When to stop waiting for the rest, in monotonic ns."""
    return start_ns + int((plan.seconds() + DRAIN_SECONDS_MAX) * 1e9)


@asynccontextmanager
async def setting_up(url: str, what: str, hint: str = "") -> AsyncIterator["AbstractChannel"]:
    """A channel to declare on. Raises: OperatorError: `what`, the fault and a `hint`."""
    # aio-pika is optional: a broker alone does not need it.
    import aio_pika

    try:
        connection = await aio_pika.connect(url, client_properties={"connection_name": "setup"})
        async with connection:
            yield await connection.channel()
    except (OSError, aio_pika.exceptions.AMQPError) as fault:
        raise OperatorError(f"{what}: {fault!r}{hint}") from fault


async def declare_queues(url: str) -> None:
    """Make the queues of the run, empty. Raises: OperatorError if the broker cannot be used."""
    what = f"no queue could be declared at {url}"
    async with setting_up(url, what, "; is the broker running?") as channel:
        for name in QUEUES:
            queue = await channel.declare_queue(name, durable=True)
            await queue.purge()


async def _accepts(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


def client_versions() -> str:
    """Names and versions of the clients, for the first lines of a run."""
    return " · ".join(f"{name} {version(name)}" for name in ("pika", "aio-pika", "celery"))
