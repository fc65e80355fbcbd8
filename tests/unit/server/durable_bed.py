"""A broker that keeps its topology in a real database, on a disk that works when it is told to."""

import weakref
from pathlib import Path
from typing import TypeAlias

from penstock.broker.admin.restore import Restored, restore
from penstock.broker.broker import Broker
from penstock.broker.vhost.catalogue import is_kept
from penstock.broker.vhost.metadata_store import MetadataStore
from penstock.broker.vhost.vhost import PREDECLARED
from penstock.routing.canonical import canonical
from penstock.routing.exchange import Exchange
from penstock.server.disk.metadata_db import MetadataDb
from penstock.simulation.machine import durable_disks
from tests.unit.broker.peer import Bed

Topology: TypeAlias = dict[str, set[tuple[object, ...]]]


class HandDisk(durable_disks.HandDisk):
    """Does all jobs that wait, those submitted meanwhile too, unless told how many."""

    def work(self, count: int = 1 << 30) -> int:
        return super().work(count)


class DurableBed(Bed):
    """path: of the database, whatever was kept there is brought back. settings: of Config."""

    def __init__(self, path: Path, **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]  # tests name fields of Config
        self.path = path
        self.database = MetadataDb(path)
        # A test may leave its bed as it is. From Python 3.13 on, a connection that is collected
        # before it is closed is a warning, in whichever test runs then.
        weakref.finalize(self.database, self.database.db.close)
        kept = self.database.read()
        self.restored: Restored = restore(self.broker, kept)
        self.disk = HandDisk()
        self.catalogue = MetadataStore(self.disk, self.database.apply, self.log, kept.queue_id_max)
        self.broker.keep(self.catalogue)

    def close(self) -> None:
        """A clean end."""
        self.catalogue.hand_over()
        self.disk.work()
        self.database.close()

    def crash(self) -> None:
        """What the disk has not done is lost."""
        self.database.close()


def topology(broker: Broker) -> Topology:
    """Everything durable that `broker` has, without what every virtual host has."""
    given = {name for name, _ in PREDECLARED} | {""}
    found: Topology = {"exchanges": set(), "queues": set(), "bindings": set()}
    for vhost in broker.vhosts.values():
        for actor in vhost.queues.values():
            if actor.durable and actor.owner == "":
                arguments = canonical(actor.arguments)
                found["queues"].add(
                    (vhost.name, actor.name, actor.queue_id, actor.auto_delete, arguments)
                )
        for one in vhost.router.exchanges():
            if one.durable and one.name not in given:
                flags = (one.auto_delete, one.internal, canonical(one.arguments))
                found["exchanges"].add((vhost.name, one.name, one.kind, *flags))
            if one.durable and one.name != "":
                for to in one.bindings():
                    if is_kept(to.destination):
                        kind = "e" if isinstance(to.destination, Exchange) else "q"
                        end = (kind, to.destination.name)
                        found["bindings"].add(
                            (vhost.name, one.name, *end, to.routing_key, to.identity)
                        )
    return found
