"""What all nodes of a cluster agree on in etcd (see agreed): which worker has which virtual host.

Every change is a compare-and-swap of the one key, and then written into `workers.json` of this node
as well, for a directory that leaves the cluster. What others have changed is seen within POLL_S.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from penstock.base.errors import OperatorError
from penstock.broker.actors.log import Log
from penstock.replication.config import LED
from penstock.server.cluster.agreed import AGREED, Agreed, cores_fault, read_agreed
from penstock.server.cluster.coordinator import CONFIG, LIVE, MEMBERS
from penstock.server.cluster.etcd import EtcdFault, EtcdStore, Stored
from penstock.server.cluster.etcd_coordinator import MemberRow, read_config
from penstock.server.cluster.follower_files import DATABASE
from penstock.server.cluster.kept_settings import (
    KEPT,
    NOTHING,
    TRIES,
    KeptSettings,
    read_kept,
    save,
)
from penstock.server.cluster.settings import SHARDS
from penstock.server.workers.placement import NO_WORKER, Placement

POLL_S: Final = 0.5
SLACK_S: Final = 0.2
"""For the reading itself."""
_FIRST: Final = 1
"""A revision that no key of ours has, etcd's first: there is one, which is not known yet."""
Edit = Callable[[Agreed], Agreed]
T = TypeVar("T")


class Leads(NamedTuple):
    """Who leads a shard, "" for nobody, where other nodes reach it, and of which epoch."""

    name: str
    address: str
    epoch: int


NOBODY_LEADS: Final = Leads("", "", 0)


class AgreedPlacement(Placement):
    """store: of the cluster's keys, used by a thread of this one's; node: this one's name; agreed:
    as it was seen last; kept: settings that were changed while nodes run.
    Raises: OperatorError where etcd does not answer, and then nobody knows whether something has
    changed."""

    def __init__(self, count: int, data_dir: str, store: EtcdStore, node: str, log: Log) -> None:
        """Raises: OperatorError."""
        self.polling: asyncio.Task[None] | None = None
        self.thread = ThreadPoolExecutor(1, "places")
        super().__init__(count, data_dir)
        self.store = store
        self.node = node
        self.log = log
        self.revision = 0
        self.agreed = Agreed(count)
        self.kept = KeptSettings()
        # One that is in the file only belongs to no cluster yet.
        self.before = self.vhosts()

    # -- the start -------------------------------------------------------------------------------

    async def agree(self, configured: Iterable[str]) -> None:
        """Have a place for each virtual host that is configured, or was here before there was an
        agreement. Waits for etcd. Raises: OperatorError, also for another number of workers."""
        names = list(configured)
        has_said = False
        while True:
            try:
                await self._run(lambda: self._begin(names))
                self.kept.seen(await self._in_thread(self._begin_settings))
            except EtcdFault as fault:
                if not has_said:
                    self.log.warning(f"no etcd answers yet: {fault}; this node waits for one")
                has_said = True
                await asyncio.sleep(POLL_S)
            else:
                break
        self.polling = asyncio.get_running_loop().create_task(self._poll())

    def _begin(self, configured: list[str]) -> None:
        def edit(there: Agreed) -> Agreed:
            places = there.vhosts
            if not places:
                places = self._earlier()
                # Of a cluster that begins with nothing: nobody has clients that a move would cost.
                there = replace(there, is_spread=bool(places))
            for name in configured:
                if name not in places:
                    places = {**places, name: _fewest(places, self.count)}
            return replace(there, vhosts=places)

        self._swap(edit)

    def _begin_settings(self) -> Stored | None:
        """Those that were changed while another node is there. Raises: EtcdFault; OperatorError."""
        found = self.store.read(KEPT).get(KEPT)
        if found is None or not read_kept(found) or self._others_live():
            return found
        # As those of a broker, which are gone with it.
        self.store.swap(KEPT, found.revision, NOTHING)
        return None

    def _others_live(self) -> bool:
        """Whether a member of another node has its key. Raises: EtcdFault."""
        live = [LIVE, *(f"{SHARDS}{shard}/{LIVE}" for shard in range(1, self.count))]
        names = {key.removeprefix(one) for one in live for key in self.store.read(one)}
        return bool(names - {self.node})

    def _earlier(self) -> dict[str, int]:
        """Before there was an agreement: by the file of several workers that were no cluster, or
        the first one's, of a single broker or of nodes that had one each.
        Raises: OperatorError; EtcdFault."""
        if self.before:
            return self.before
        database = Path(self.data_dir) / DATABASE
        if database.exists():
            return dict.fromkeys(_names_in(database), 0)
        if CONFIG in self.store.read(CONFIG):
            raise OperatorError(
                f"--cores {self.count}: this cluster was made without --cores, and this node has "
                "nothing of it yet: start one that has with --cores first"
            )
        return {}

    # -- changes ---------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def _run(self, work: Callable[[], None]) -> None:
        before = self._places
        await self._in_thread(work)
        self._tell(before)

    def _tell(self, before: dict[str, int]) -> None:
        if self._places != before and self.changed is not None:
            self.changed()

    async def _edit(self, edit: Edit) -> None:
        try:
            await self._run(lambda: self._swap(edit))
        except EtcdFault as fault:
            raise OperatorError(
                f"the nodes cannot agree on it while etcd does not answer ({fault}): try again"
            ) from fault

    def _swap(self, edit: Edit) -> None:
        """In the thread. Raises: EtcdFault, OperatorError."""
        for _ in range(TRIES):
            stored = self.store.read(AGREED).get(AGREED)
            if stored is None and self.revision > 0:
                raise OperatorError(
                    "etcd knows nothing of this cluster's virtual hosts any more: it has lost its "
                    "data, or is another one; nothing is changed. Restore it"
                )
            agreed = self._agreed(stored)
            wanted = edit(agreed)
            if stored is not None and wanted == agreed:
                self._take(wanted, stored.revision)
                return
            data = msgspec.json.encode(wanted)
            if self.store.swap(AGREED, 0 if stored is None else stored.revision, data):
                # Its revision is seen at the next look.
                self._take(wanted, max(self.revision, _FIRST))
                return
        raise OperatorError("other nodes change which worker has which virtual host: try again")

    def _agreed(self, stored: Stored | None) -> Agreed:
        """Raises: OperatorError."""
        if stored is None:
            return Agreed(self.count)
        agreed = read_agreed(stored.value)
        wrong = cores_fault(agreed, self.count)
        if wrong:
            raise OperatorError(wrong)
        return agreed

    def _take(self, agreed: Agreed, revision: int) -> None:
        """Raises: OperatorError, and then it is looked at again."""
        if agreed.vhosts != self._places:
            self._keep(agreed.vhosts)
            self._places = agreed.vhosts
        self.agreed = agreed
        self.revision = revision

    async def add(self, vhost: str) -> int:
        def edit(there: Agreed) -> Agreed:
            if vhost in there.vhosts:
                return there
            places = {**there.vhosts, vhost: _fewest(there.vhosts, self.count)}
            return replace(there, vhosts=places)

        await self._edit(edit)
        return self.worker_of(vhost)

    async def spread(self) -> None:
        await asyncio.sleep(POLL_S + SLACK_S)

    async def drop(self, vhost: str) -> None:
        def edit(there: Agreed) -> Agreed:
            places = {name: at for name, at in there.vhosts.items() if name != vhost}
            return replace(there, vhosts=places)

        await self._edit(edit)

    async def learn(self, worker: int, names: Iterable[str]) -> None:
        """These are at that worker. Raises: OperatorError, also where one is at another."""
        new = [name for name in names if self.worker_of(name) != worker]
        if not new:
            return

        def edit(there: Agreed) -> Agreed:
            places = there.vhosts
            for name in new:
                if places.get(name, NO_WORKER) not in (NO_WORKER, worker):
                    raise OperatorError(
                        f"virtual host '{name}' is at worker {places[name]} and at worker {worker};"
                        " export the definitions of one of them, and delete it there"
                    )
            return replace(there, vhosts={**places, **dict.fromkeys(new, worker)})

        await self._edit(edit)

    async def keep_leaders(self) -> None:
        """They are where an operator wants them, and are not spread without one any more."""
        if not self.agreed.is_spread:
            await self._edit(lambda there: replace(there, is_spread=True))

    def settings(self) -> dict[str, str]:
        """That were changed for good while nodes run, by key."""
        return self.kept.all()

    async def keep_settings(self, changes: Mapping[str, str]) -> str:
        """They are in force, and will be where a broker begins to serve at any node. While etcd is
        away other nodes do not hear of it: why, "" where they do. Raises: OperatorError for too
        many."""
        if not changes:
            return ""
        self.kept.change(changes)
        try:
            await self._save()
        except (EtcdFault, OperatorError) as fault:
            self.log.warning(f"other nodes hear of changed settings later: {fault}")
            return str(fault)
        return ""

    async def _save(self) -> None:
        """Raises: EtcdFault; OperatorError."""
        changes, lost = dict(self.kept.unsaved), dict(self.kept.lost)
        after = await self._in_thread(lambda: save(self.store, changes, lost))
        self.kept.saved(changes, after)

    # -- what others change ----------------------------------------------------------------------

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            with suppress(EtcdFault, OperatorError):
                await self._run(self._look)
                self.kept.seen(await self._in_thread(lambda: self.store.read(KEPT).get(KEPT)))
                if not self.kept.is_saved():
                    await self._save()

    def _look(self) -> None:
        stored = self.store.read(AGREED).get(AGREED)
        if stored is not None and stored.revision != self.revision:
            self._take(self._agreed(stored), stored.revision)

    # -- who leads -------------------------------------------------------------------------------

    async def leader_of(self, shard: int) -> Leads:
        """As etcd has it, where the member of this node does not say. Raises: EtcdFault;
        OperatorError."""
        return await self._in_thread(lambda: self._leader_of(shard))

    def _leader_of(self, shard: int) -> Leads:
        below = f"{SHARDS}{shard}/" if shard else ""
        stored = self.store.read(below + CONFIG).get(below + CONFIG)
        config = None if stored is None else read_config(stored.value)
        if config is None or config.phase != LED:
            return NOBODY_LEADS
        key = f"{below}{MEMBERS}{config.leader}"
        row = self.store.read(key).get(key)
        address = "" if row is None else msgspec.json.decode(row.value, type=MemberRow).address
        return Leads(config.leader, address, config.epoch)

    def close(self) -> None:
        super().close()
        if self.polling is not None:
            self.polling.cancel()
        self.thread.shutdown(wait=False)


def _fewest(places: dict[str, int], count: int) -> int:
    counts = [0] * count
    for worker in places.values():
        counts[worker] += 1
    return counts.index(min(counts))


def _names_in(database: Path) -> list[str]:
    """Virtual hosts of a broker's catalogue. Raises: OperatorError."""
    try:
        with closing(sqlite3.connect(database)) as found:
            rows = found.execute("SELECT name FROM vhosts").fetchall()
    except sqlite3.Error as fault:
        raise OperatorError(f"{database} cannot be read: {fault}") from fault
    return ["/", *(name for (name,) in rows if name != "/")]
