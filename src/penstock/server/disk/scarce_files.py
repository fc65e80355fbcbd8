"""Closes files that stores need not have open, while one of them waits because it can open none.

Each store gives up its own before it waits (storage/log/handles, streams/handles); but a process
has one limit for all of them, and those that rest are asked by nobody else.
"""

from penstock.broker.actors.disk import Disk, JobClient
from penstock.broker.broker import Broker
from penstock.storage.log.handles import Handles
from penstock.storage.log.job import Job
from penstock.streams.handles import StreamHandles


class GiveUpFiles(Job):
    """Closes whatever in `logs` and `streams` nobody is using and nobody waits for."""

    def __init__(self, logs: list[Handles], streams: list[StreamHandles]) -> None:
        self.logs = logs
        self.streams = streams

    def run(self) -> None:
        for log in self.logs:
            log.give_up_idle()
        for one in self.streams:
            one.give_up_idle()


class ScarceFiles(JobClient):
    """is_under_way: they are being closed. Owner: the node's tick."""

    def __init__(self, broker: Broker, disk: Disk) -> None:
        self.broker = broker
        self.disk = disk
        self.is_under_way = False

    def tick(self) -> None:
        """Once a second. A disk without room is none the worse for it: it opens them again."""
        broker = self.broker
        stores = [*broker.stores.stores.values(), *broker.stores.scratch.values()]
        streams = [one for one in broker.streams.stores.values() if one.disk is self.disk]
        is_waiting = any(one.is_full for one in stores) or any(one.is_full for one in streams)
        if is_waiting and not self.is_under_way:
            self.is_under_way = True
            job = GiveUpFiles([one.log.handles for one in stores], [one.handles for one in streams])
            self.disk.submit(job, self)

    def job_done(self, job: Job, error: OSError | None) -> None:
        self.is_under_way = False
