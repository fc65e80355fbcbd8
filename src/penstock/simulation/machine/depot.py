"""A disk under a simulated broker: jobs end when the dice say so, and what is there at the end is
what rests in the queues.
"""

from typing import Final

from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.keeper import Keeper
from penstock.simulation.machine.dice import Dice
from penstock.simulation.machine.disk import SimDisk
from penstock.simulation.machine.faults import LawBroken
from penstock.simulation.machine.keeping import HandDisk, give_scratch, give_store
from penstock.storage.recovery.recovery import recover

EVERYTHING: Final = 1 << 30
SPARES: Final = 2


class Depot:
    """The store of virtual host /, its files, and the disk that works when it is told to."""

    def __init__(self, broker: Broker, dice: Dice) -> None:
        self.disk = HandDisk()
        self.files = SimDisk()
        self.segment_bytes = dice.one_of((2048, 20_000, 1 << 20))
        self.store = give_store(broker, self.disk, self.files, self.segment_bytes, SPARES)
        give_scratch(broker, self.disk, self.segment_bytes)

    def check_end(self, broker: Broker) -> None:
        """Nothing is under way: the log has what rests in each queue, no more and no less; and a
        start on what is on the disk brings back all of it. Raises: LawBroken."""
        store = self.store
        if self.disk.jobs or store.requests():
            raise LawBroken(f"{store.identity}: {len(store.requests())} requests are left behind")
        queues = [one for one in broker.vhosts["/"].queues.values() if one.queue_id > 0]
        for queue in queues:
            keeper = queue.keeper
            assert isinstance(keeper, Keeper), "a queue with an id has a keeper"
            kept = store.log.live_count(keeper.index)
            if kept != queue.messages.ready_count():
                raise LawBroken(
                    f"{queue.identity}: {kept} in the log, {queue.messages.ready_count()} ready"
                )
        if len(store.lanes) < len(queues):
            raise LawBroken(f"{store.identity}: {len(store.lanes)} lanes, {len(queues)} queues")
        self._check_start(broker, queues)

    def _check_start(self, broker: Broker, queues: list[QueueActor]) -> None:
        image = SimDisk(self.files.contents())
        ids = {int(queue.queue_id) for queue in queues}
        recovered = recover(image, broker.chance, self.segment_bytes, ids)
        for queue in queues:
            index = recovered.queues[int(queue.queue_id)]
            job = recovered.log.plan_reads(index, 0, EVERYTHING, EVERYTHING)
            job.run()
            bodies = [found.message.body() for found in job.found]
            for message in queue.messages.ready_messages():
                if message.body() not in bodies:
                    raise LawBroken(f"{queue.identity}: a message would not come back")
            if job.damaged:
                raise LawBroken(f"{queue.identity}: {len(job.damaged)} damaged messages")
