"""The process above several brokers: it opens the ports, starts and watches them, and has them
asked for by whoever asks it.

A worker that ends is started again, after FIRST_REST_S and then longer rests; clients of the others
notice nothing. It has no part in what clients do, so nothing of it is felt by a message.
"""

import asyncio
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log
from penstock.broker.admin.answers import WorkerRow
from penstock.broker.settings.settings import not_kept, refused_words
from penstock.server.boot.log_lines import LineLog, log_of
from penstock.server.boot.management_child import ManagementChild, is_management_wanted
from penstock.server.boot.reload import in_force, settings_to_change
from penstock.server.cluster.kept_settings import check_room
from penstock.server.control.control_client import control_path
from penstock.server.control.control_socket import ControlSocket
from penstock.server.disk.data_directory import PLACES
from penstock.server.machine.clock import SystemClock
from penstock.server.machine.machine import resident_bytes
from penstock.server.machine.settle import settle_process
from penstock.server.net.client_ports import ClientPorts
from penstock.server.net.handover_messages import handover_pair, send_operator, turn_away
from penstock.server.net.listener import raise_limit
from penstock.server.workers.gather import Gather
from penstock.server.workers.gather_settings import at_worker
from penstock.server.workers.gather_ways import Answer, NotEverywhere
from penstock.server.workers.pipe import Ready, Start, Told
from penstock.server.workers.placement import Placement
from penstock.server.workers.worker_client import WorkerClient
from penstock.server.workers.worker_config import worker_config
from penstock.server.workers.worker_process import WorkerProcess, shown

FIRST_REST_S: Final = 1.0
LONGEST_REST_S: Final = 60.0
CALM_S: Final = 60.0
"""A worker that has served for so long begins with the first rest again."""
METADATA: Final = "metadata.sqlite"


class HandoverEnds:
    """Both ends of the socket on which connections are handed over to each worker, which its next
    process has, too."""

    def __init__(self, count: int) -> None:
        """Raises: OperatorError."""
        try:
            pairs = [handover_pair() for _ in range(count)]
        except OSError as fault:
            # macOS has no such sockets.
            raise OperatorError(
                f"--cores {count}: this system has no sockets to hand connections over "
                f"({fault.strerror or fault}); start without --cores"
            ) from fault
        self.receive = [first for first, _ in pairs]
        self.send = [second for _, second in pairs]

    def handles(self, worker: int) -> tuple[int, ...]:
        """What that worker inherits."""
        return (self.receive[worker].fileno(), *self.to_others(worker).values())

    def to_others(self, worker: int) -> dict[int, int]:
        return {other: one.fileno() for other, one in enumerate(self.send) if other != worker}

    def close(self) -> None:
        for sock in (*self.receive, *self.send):
            sock.close()


class Parent:
    """reread: the settings as they are written now, None where they are written nowhere; changed:
    those that `flow set` has changed since the start, by key; refused: why a worker could not take
    some of them over when it began last, by worker; failure: why it ends, None for an
    orderly stop."""

    def __init__(
        self,
        config: Config,
        log: Log,
        reread: Callable[[], Config] | None = None,
        placement: Placement | None = None,
    ) -> None:
        """placement: that others have agreed on already, which this closes."""
        count = config.cores
        self.log = log
        self.reread = reread
        directory = config.data_dir
        is_single = (
            bool(directory)
            and (Path(directory) / METADATA).exists()
            and not (Path(directory) / PLACES).exists()
        )
        with ExitStack() as undo:
            self.handover = HandoverEnds(count)
            undo.callback(self.handover.close)
            self.placement = placement or Placement(count, directory)
            undo.callback(self.placement.close)
            self.ports = ClientPorts(config)
            undo.callback(self.ports.close)
            # The last: of a start that fails here nothing stays, and one broker alone may start.
            if placement is None:
                self.placement.settle(config.vhosts, is_single)
            undo.pop_all()
        self.config = self.ports.settled(config)
        self.path = config.control_socket or control_path(self.ports.port)
        self.client = WorkerClient([self.control_of(worker) for worker in range(count)])
        self.gather = Gather(self.client, self.placement)
        self.workers: list[WorkerProcess] = []
        self.restored: list[Ready] = []
        self.rests = [FIRST_REST_S] * count
        self.watching: list[asyncio.Task[None]] = []
        self.control: ControlSocket | None = None
        self.management: ManagementChild | None = None
        self.changed: dict[str, str] = {}
        self.refused: dict[int, list[str]] = {}
        self.failure: OperatorError | None = None
        self.over = asyncio.Event()

    # -- workers ---------------------------------------------------------------------------------

    def control_of(self, worker: int) -> str:
        """Path of that worker's own control socket."""
        whole = Path(self.path)
        return str(whole.with_name(f"{whole.stem}-worker-{worker}.sock"))

    def _start(self, worker: int) -> WorkerProcess:
        """Raises: OperatorError."""
        own = worker_config(self.config, worker, self.placement, self.control_of(worker))
        start = Start(
            own,
            worker,
            self.ports.inherited(),
            self.handover.receive[worker].fileno(),
            self.handover.to_others(worker),
            self.placement.vhosts(),
        )
        handles = (*self.ports.handles(), *self.handover.handles(worker))
        return WorkerProcess(start, handles)

    async def start(self) -> None:
        """Everything serves when it returns. Raises: OperatorError."""
        for worker in range(self.placement.count):
            self.workers.append(self._start(worker))
        for one in self.workers:
            ready = await one.ready
            if ready.fault:
                raise OperatorError(f"worker {one.worker}: {ready.fault}")
            self.restored.append(ready)
        await self._agree()
        loop = asyncio.get_running_loop()
        self.watching = [loop.create_task(self._watch(one)) for one in range(len(self.workers))]
        self.control = ControlSocket(
            self.path, self._answer, None, self.gather.is_change, self._adopt
        )
        await self.control.start()
        if is_management_wanted(self.config):
            self.management = ManagementChild(self.config, self.path, self.log)

    async def _agree(self) -> None:
        """Who has which virtual host is as the workers say, and users are those of worker 0.
        Raises: OperatorError."""
        there = [await self._vhosts_at(worker) for worker in range(len(self.workers))]
        self.placement.compare(there)
        self.placement.changed = self.tell_all
        for worker in range(1, len(self.workers)):
            await self._make_equal(worker)
        self.tell_all()

    async def _vhosts_at(self, worker: int) -> list[str]:
        answer = await self.client.ask(worker, {"op": "objects", "do": "vhosts"})
        return [str(row["name"]) for row in answer["items"]]

    async def _make_equal(self, worker: int) -> None:
        """Users and their limits, to those of worker 0. Raises: OperatorError."""
        changed = await self.gather.make_equal(worker)
        if changed:
            self.log.warning(
                f"worker {worker}: {changed} users or limits were not as those of worker 0, and "
                "are now"
            )

    def _adopt(self, sock: socket.socket, name: str) -> None:
        """Worker 0 serves an operator, or hands him on."""
        with sock:
            if not send_operator(self.handover.send[0], sock, name):
                self.log.warning("an operator was turned away: worker 0 takes nobody more now")

    async def _answer(self, fields: dict[str, object]) -> Answer:
        """Raises: OperatorError."""
        changes = fields.get("changes")
        is_lasting = (fields.get("op"), fields.get("do")) == ("flow", "set")
        kept = changes if is_lasting and isinstance(changes, dict) and not fields.get("for") else {}
        texts = {str(key): str(value) for key, value in kept.items()}
        try:
            answer = await self.gather.answer(fields)
        except NotEverywhere:
            await self._keep(texts)
            raise
        why = await self._keep(texts)
        if why and isinstance(answer, dict):
            answer["words"] = not_kept(why)
        if fields.get("op") == "status" and isinstance(answer, dict):
            answer["workers"] = [self._row(one) for one in self.workers]
        return answer

    async def _keep(self, changes: dict[str, str]) -> str:
        """Settings that a worker has which begins later: why they are not kept yet, "" if they are.
        Raises: OperatorError for too many."""
        check_room(self.changed, changes)
        self.changed.update(changes)
        return ""

    def _lasting(self) -> dict[str, str]:
        """All of them."""
        return self.changed

    def _row(self, one: WorkerProcess) -> WorkerRow:
        memory_bytes = 0
        with suppress(OSError):
            memory_bytes = resident_bytes(str(one.pid))
        is_serving = one.ready.done() and not one.ended.done()
        return WorkerRow(
            one.worker, one.pid, is_serving, memory_bytes, self.placement.of(one.worker)
        )

    def tell_all(self) -> None:
        """Who has which virtual host, and which processes there are."""
        told = Told(places=self.placement.vhosts(), pids=[one.pid for one in self.workers])
        for one in self.workers:
            one.tell(told)

    async def _watch(self, worker: int) -> None:
        """Start it again whenever it ends."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            # Whoever gives up watching does not give up waiting for the end.
            code = await asyncio.shield(self.workers[worker].ended)
            if loop.time() - began >= CALM_S:
                self.rests[worker] = FIRST_REST_S
            rest_s = self.rests[worker]
            self.rests[worker] = min(LONGEST_REST_S, rest_s * 2)
            self.log.warning(
                f"worker {worker} has ended ({shown(code)}); it is started again in {rest_s:.0f} s"
            )
            await self._rest(worker, rest_s)
            try:
                self.workers[worker] = self._start(worker)
            except OperatorError as fault:
                self.log.warning(str(fault))
                continue
            ready = await self.workers[worker].ready
            if ready.fault:
                self.log.warning(f"worker {worker}: {ready.fault}")
                self._turn_away(worker)
                continue
            self.tell_all()
            await self._serves_again(worker)

    async def _serves_again(self, worker: int) -> None:
        self.log.info(f"worker {worker} serves again, pid {self.workers[worker].pid}")
        await self._set_again(worker, self._lasting())
        await self._look_at_users(worker)

    async def _set_again(self, worker: int, changes: dict[str, str]) -> None:
        """Settings that were changed while the node runs are the same at all workers. One that this
        worker cannot have is told of once, and the others are in force."""
        own = at_worker(changes, worker, self.placement.worker_of)
        if not own:
            return
        fields = {"op": "flow", "do": "take", "changes": own}
        try:
            refused = [str(one) for one in (await self.client.ask(worker, fields))["refused"]]
        except OperatorError as fault:
            self.log.warning(f"settings of worker {worker} are those of the start: {fault}")
            return
        fresh = [one for one in refused if one not in self.refused.get(worker, ())]
        self.refused[worker] = refused
        if fresh:
            self.log.warning(f"worker {worker}: {refused_words(fresh)}")

    async def _rest(self, worker: int, rest_s: float) -> None:
        """Wait; its clients do so handshake_ms at most, about."""
        patience_s = self.config.handshake_ms / 1000
        while rest_s > patience_s:
            await asyncio.sleep(patience_s)
            rest_s -= patience_s
            self._turn_away(worker)
        await asyncio.sleep(rest_s)

    def _turn_away(self, worker: int) -> None:
        """Clients that others have handed to a worker that is not there, and will not be soon."""
        count = turn_away(self.handover.receive[worker])
        if count > 0:
            self.log.warning(f"worker {worker} is not there: {count} clients for it were closed")

    async def _look_at_users(self, again: int) -> None:
        """Worker `again` serves again: whatever was changed while it was away. One that started
        while worker 0 was away is looked at when that serves again."""
        others = range(1, len(self.workers))
        for worker in others if again == 0 else [again]:
            try:
                await self._make_equal(worker)
            except OperatorError as fault:
                self.log.warning(f"users of worker {worker} are looked at later: {fault}")

    # -- signals ---------------------------------------------------------------------------------

    def hang_up(self) -> None:
        """SIGHUP: read the configuration again, have every worker take its part, and open the log
        anew. A configuration with a fault changes nothing."""
        try:
            after = self.config if self.reread is None else self.ports.settled(self.reread())
            if isinstance(self.log, LineLog):
                self.log.set_up(after.log_level, after.log_format)
                self.log.open(after.log_file)
        except OperatorError as fault:
            self.log.warning(f"SIGHUP: {fault}; the settings of before stay in force")
            return
        # One that is started again meanwhile is as the others are.
        for key, _ in settings_to_change(self.config, after)[0]:
            self.changed.pop(key, None)
        self.config = in_force(self.config, after)
        for number, one in enumerate(self.workers):
            own = worker_config(after, number, self.placement, self.control_of(number))
            one.tell(self._settings(own))

    def _settings(self, config: Config) -> msgspec.Struct:
        """For a worker: to be put in force."""
        return Told(config=config)

    async def stop(self) -> None:
        """Workers stop in order, side by side."""
        for task in self.watching:
            task.cancel()
        if self.management is not None:
            await self.management.stop()
        if self.control is not None:
            await self.control.close()
        self.client.close()
        await asyncio.gather(*(one.stop() for one in self.workers), return_exceptions=True)
        self.ports.close()
        self.handover.close()
        self.placement.close()


async def serve_workers(
    config: Config,
    announce: Callable[[Parent], None],
    reread: Callable[[], Config] | None = None,
) -> None:
    """Run `config.cores` workers until SIGINT or SIGTERM. Raises: OperatorError."""
    raise_limit(0)
    await run_parent(Parent(config, log_of(config, SystemClock()), reread), announce)


P = TypeVar("P", bound=Parent)


async def run_parent(parent: P, announce: Callable[[P], None]) -> None:
    """Until SIGINT or SIGTERM, or until it fails. Raises: OperatorError."""
    loop = asyncio.get_running_loop()
    for name in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(name, parent.over.set)
    loop.add_signal_handler(signal.SIGHUP, parent.hang_up)
    try:
        await parent.start()
        settle_process()
        announce(parent)
        if parent.management is not None:
            parent.management.start()
        await parent.over.wait()
    finally:
        await parent.stop()
    if parent.failure is not None:
        raise parent.failure
