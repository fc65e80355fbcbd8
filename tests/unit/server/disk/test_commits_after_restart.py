"""Commits and the catalogue: what an app is told was committed has queues to be in."""

from errno import ENOSPC
from pathlib import Path

from penstock.broker.vhost.metadata_store import CatalogueJob
from penstock.protocol import methods as m
from penstock.protocol.values import Table
from tests.unit.broker.peer import Peer, publish
from tests.unit.server.lease_bed import PERSISTENT, LeaseBed


def work(bed: LeaseBed, is_full: bool) -> None:
    """Let the disk do everything for a while. is_full: it has no room for the catalogue."""
    bed.run()
    for _ in range(10):
        while bed.disk.jobs:
            job, client = bed.disk.jobs.pop(0)
            if is_full and isinstance(job, CatalogueJob):
                client.job_done(job, OSError(ENOSPC, "full"))
            else:
                job.run()
                client.job_done(job, None)
            bed.run()
        bed.pass_time()


def asked(peer: Peer, verb: str, **arguments: object) -> Table:
    """A request of transactions, and its answer."""
    question = m.RequestAsk(f"transaction.{verb}", arguments)  # type: ignore[arg-type]  # values are AMQP's
    return peer.call(1, question, m.RequestAskOk).answer


def committing(bed: LeaseBed) -> Peer:
    """Somebody who has a commit under way into the durable queue q, which is new."""
    peer = bed.connect("app")
    peer.call(1, m.QueueDeclare("q", durable=True), m.QueueDeclareOk)
    identity = asked(peer, "begin", app="a", batch=0, max_bytes=10_000)["id"]
    peer.send(publish(1, "", "q", b"1", PERSISTENT))
    asked(peer, "stage", id=identity)
    peer.say(1, m.RequestAsk("transaction.commit", {"app": "a", "batch": 0, "ids": [identity]}))
    return peer


def test_nothing_is_committed_before_the_catalogue_has_its_queues(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = committing(bed)
    work(bed, True)
    assert peer.heard() == []
    bed.die()
    bed = LeaseBed(tmp_path)
    assert "q" not in bed.broker.vhosts["/"].queues
    assert asked(bed.connect("app"), "last", app="a")["batch"] == -1, "it can be said again"
    bed.die()


def test_it_is_when_there_is_room_again(tmp_path: Path) -> None:
    bed = LeaseBed(tmp_path)
    peer = committing(bed)
    work(bed, True)
    bed.catalogue.tick()
    work(bed, False)
    assert peer.one(m.RequestAskOk).answer["messages"] == 1
    bed.die()
    bed = LeaseBed(tmp_path)
    assert asked(bed.connect("app"), "last", app="a")["batch"] == 0
    assert bed.ready() == 1
    bed.die()
