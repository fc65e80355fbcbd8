"""The process above the members of one node: each is of a shard of its own, which any node leads.

As the parent of workers it opens the ports, starts members and starts one anew that has ended, and
has them asked. It tells each who leads the shards of the others. It has no part in what clients do.
"""

import asyncio
from collections.abc import Callable, Container
from pathlib import Path
from typing import Final

import msgspec

from penstock.base.config import Config
from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log
from penstock.server.boot.log_lines import log_of
from penstock.server.boot.management_child import ManagementChild, is_management_wanted
from penstock.server.cluster.etcd import EtcdFault, EtcdStore
from penstock.server.cluster.pipe import Places
from penstock.server.cluster.settings import MemberSettings, member_settings
from penstock.server.cluster.siblings import Lead
from penstock.server.control.control_client import OF_CLUSTER, cluster_path
from penstock.server.control.control_socket import ControlSocket
from penstock.server.machine.clock import SystemClock
from penstock.server.net.listener import raise_limit
from penstock.server.shards.answers import ShardAnswers
from penstock.server.shards.pipe import Said, Start, Told
from penstock.server.shards.placement import POLL_S, SLACK_S, AgreedPlacement
from penstock.server.shards.spreading import FirstSpread
from penstock.server.workers.parent import Parent, run_parent
from penstock.server.workers.pipe import Ready
from penstock.server.workers.worker_client import WorkerClient
from penstock.server.workers.worker_config import worker_config
from penstock.server.workers.worker_process import WorkerProcess

MODULE: Final = "penstock.cli.shard_child"
FIRST: Final = 0
"""Whose leader sees to what is done once in the cluster."""
LOOK_S: Final = 1.0
LOOKS: Final = 4
"""At settings, after a broker has begun here."""
QUIET_S: Final = 5.0
"""Without a word of a member: it stands still, and what it has said of itself counts no more."""
AGAIN_S: Final = 5.0
"""Until users are looked at again, where the first shard had no leader."""


class ShardParent(Parent):
    """leads: who leads each shard, as the member of this node says; heard_s: when it did so last,
    in the loop's time; covers: which worker takes clients for one that stands still."""

    def __init__(
        self,
        config: Config,
        settings: MemberSettings,
        log: Log,
        places: AgreedPlacement,
        reread: Callable[[], Config] | None = None,
    ) -> None:
        """Raises: OperatorError."""
        super().__init__(config, log, reread, places)
        self.settings = settings
        self.places = places
        self.leads: dict[int, Lead] = {}
        self.heard_s: dict[int, float] = {}
        self.covers: dict[int, int] = {}
        self.looking: asyncio.Task[None] | None = None
        self.equals: dict[int, asyncio.Task[None]] = {}
        paths = [self.cluster_of(worker) for worker in range(places.count)]
        self.members = WorkerClient(paths)
        self.answers = ShardAnswers(self.members, places)
        self.first = FirstSpread(self.answers, log)
        self.spreading: asyncio.Task[None] | None = None
        self.cluster: ControlSocket | None = None

    # -- members ---------------------------------------------------------------------------------

    def cluster_of(self, worker: int) -> str:
        """Path of the socket where that member answers questions about its shard."""
        whole = Path(self.control_of(worker))
        return str(whole.with_name(f"{whole.stem}{OF_CLUSTER}.sock"))

    def _told(self) -> tuple[dict[int, Lead], Places]:
        pids = [pid for lead in self.leads.values() for pid in lead.pids]
        return dict(self.leads), Places(self.placement.vhosts(), pids)

    def _start(self, worker: int) -> WorkerProcess:
        """Raises: OperatorError."""
        own = worker_config(self.config, worker, self.placement, self.control_of(worker))
        send = {number: one.fileno() for number, one in enumerate(self.handover.send)}
        receive = {number: one.fileno() for number, one in enumerate(self.handover.receive)}
        leads, places = self._told()
        start = Start(
            own,
            worker,
            self.placement.count,
            self.ports.inherited(),
            receive,
            send,
            leads,
            places,
        )
        handles = (*self.ports.handles(), *receive.values(), *send.values())

        def heard(said: Ready) -> None:
            self._heard(worker, said)

        return WorkerProcess(start, handles, MODULE, Said, heard)

    def _heard(self, worker: int, said: Ready) -> None:
        assert isinstance(said, Said | Ready), "its shape says so"
        if not isinstance(said, Said):
            # The process is gone; connections to other nodes may still be made in its name.
            gone = self.leads.get(worker, Lead())
            self._leads(worker, msgspec.structs.replace(gone, leader="", is_here=False, pids=()))
            return
        if said.is_final and self.failure is None:
            self.failure = OperatorError(said.fault)
            self.over.set()
        if said.lead is not None:
            self.heard_s[worker] = asyncio.get_running_loop().time()
            self._leads(worker, said.lead)

    async def _look(self) -> None:
        """A member that stands still with its broker takes no clients: the others of this node do,
        who would leave that to the broker, and those for its shard go to who leads that now."""
        while True:
            await asyncio.sleep(LOOK_S)
            now_s = asyncio.get_running_loop().time()
            quiet = {one: now_s - at_s for one, at_s in self.heard_s.items()}
            quiet = {one: for_s for one, for_s in quiet.items() if for_s > QUIET_S}
            self._cover(quiet)
            for worker, quiet_s in quiet.items():
                lead = self.leads[worker]
                if lead.is_here:
                    self.log.warning(f"nothing is heard of worker {worker} for {quiet_s:.0f} s")
                    self._leads(worker, msgspec.structs.replace(lead, leader="", is_here=False))
                await self._ask_who_leads(worker)

    def _cover(self, quiet: Container[int]) -> None:
        """Have a member that is not among them take clients which brokers hand over to those."""
        well = [one for one in self.heard_s if one not in quiet]
        covers = {one: min(well) for one in self.heard_s if one in quiet} if well else {}
        if covers != self.covers:
            self.covers = covers
            self.tell_all()

    async def _ask_who_leads(self, worker: int) -> None:
        """In place of a member that stands still, or is not there."""
        try:
            found = await self.places.leader_of(worker)
        except (OperatorError, EtcdFault, msgspec.DecodeError):
            # Asked again at the next look.
            return
        lead = self.leads[worker]
        is_other = found.name not in ("", self.settings.name) and lead.identity != ""
        if is_other and found.epoch >= lead.epoch and not lead.is_here:
            after = msgspec.structs.replace(
                lead, leader=found.name, address=found.address, epoch=found.epoch, is_here=False
            )
            self._leads(worker, after)

    def _leads(self, worker: int, lead: Lead) -> None:
        before = self.leads.get(worker, Lead())
        if lead == before:
            return
        self.leads[worker] = lead
        self.first.leads_first = FIRST in self.leads and self.leads[FIRST].is_here
        self.tell_all()
        if lead.is_here and (lead.epoch, lead.boot_id) != (before.epoch, before.boot_id):
            task = self.equals.pop(worker, None)
            if task is not None:
                task.cancel()
            loop = asyncio.get_running_loop()
            self.equals[worker] = loop.create_task(self._serves_here(worker, lead.epoch))

    def tell_all(self) -> None:
        leads, places = self._told()
        told = Told(leads, places, self.covers)
        for one in self.workers:
            one.tell(told)

    def _settings(self, config: Config) -> msgspec.Struct:
        return Told(config=config)

    # -- the start -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Every member listens when it returns; shards have leaders when they have.
        Raises: OperatorError."""
        for worker in range(self.placement.count):
            self.workers.append(self._start(worker))
        for one in self.workers:
            ready = await one.ready
            if ready.fault:
                raise OperatorError(f"worker {one.worker}: {ready.fault}")
        self.placement.changed = self.tell_all
        self.tell_all()
        loop = asyncio.get_running_loop()
        self.watching = [loop.create_task(self._watch(one)) for one in range(len(self.workers))]
        self.looking = loop.create_task(self._look())
        self.control = ControlSocket(
            self.path, self._answer, None, self.gather.is_change, self._adopt
        )
        await self.control.start()
        asked = cluster_path(self.ports.port, self.config.control_socket)
        self.cluster = ControlSocket(asked, self.answers.answer)
        await self.cluster.start()
        if self.config.cluster_spread:
            self.spreading = loop.create_task(self.first.run())
        if is_management_wanted(self.config):
            self.management = ManagementChild(
                self.config, self.path, self.log, self.ports.local(), asked
            )

    async def _serves_again(self, worker: int) -> None:
        """Its member follows or leads; what a broker is told is told when one serves here."""
        self.log.info(f"worker {worker} is there again, pid {self.workers[worker].pid}")

    async def _serves_here(self, worker: int, epoch: int) -> None:
        """A broker of this node serves that shard now: settings are as they were changed while
        nodes run, its virtual hosts have their place, and users are those of the first shard."""
        before = self._lasting()
        await self._set_again(worker, before)
        while self.leads[worker].is_here and self.leads[worker].epoch == epoch:
            try:
                await self.places.learn(worker, await self._vhosts_at(worker))
                if worker > 0:
                    await self._make_equal(worker)
                break
            except OperatorError as fault:
                self.log.warning(f"users of worker {worker} are looked at later: {fault}")
                await asyncio.sleep(AGAIN_S)
        # One that was changed at another node just then, and had not been heard of here; or that
        # this node has dropped at its start, because none seemed to be there, and one has put back.
        for _ in range(LOOKS):
            await asyncio.sleep(POLL_S + SLACK_S)
            after = self._lasting()
            news = {key: text for key, text in after.items() if before.get(key) != text}
            await self._set_again(worker, news)
            before = after

    def _lasting(self) -> dict[str, str]:
        return self.places.settings()

    async def _keep(self, changes: dict[str, str]) -> str:
        return await self.places.keep_settings(changes)

    # -- the end ---------------------------------------------------------------------------------

    async def stop(self) -> None:
        for task in self.equals.values():
            task.cancel()
        for one in (self.looking, self.spreading):
            if one is not None:
                one.cancel()
        if self.cluster is not None:
            await self.cluster.close()
        self.members.close()
        await super().stop()


async def serve_shards(
    config: Config,
    announce: Callable[[ShardParent], None],
    reread: Callable[[], Config] | None = None,
) -> None:
    """Run a node with a member of each shard until SIGINT or SIGTERM. Raises: OperatorError."""
    settings = member_settings(config)
    for worker in range(config.cores):
        settings.of_shard(worker)
    raise_limit(0)
    log = log_of(config, SystemClock())
    store = EtcdStore(settings.endpoints, settings.prefix, settings.etcd_files)
    places = AgreedPlacement(config.cores, config.data_dir, store, settings.name, log)
    try:
        await places.agree(config.vhosts)
        parent = ShardParent(config, settings, log, places, reread)
    except BaseException:
        places.close()
        raise
    await run_parent(parent, announce)
