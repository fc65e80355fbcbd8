"""What a commit hands to the message store: all of its messages for all of their queues, in one.

They become one group of the log (storage/log/groups), so a crash leaves all of them or none. What
the queues had on its way to the store before goes first, so that the order on the disk is theirs.
It is put into the batch piece by piece, and the batch waits for all of it.
"""

from penstock.broker.actors.lane import Answerable
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import StoreLane, StoreRequest
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.storage.log.groups import GroupAppend, GroupEntry
from penstock.storage.log.log import MessageLog


class GroupRequest(StoreRequest):
    """entries: of the group, the mark of its app behind all others; room: `group_bytes` of them;
    durabilities: of its queues, which take nothing else until `answerable` is told."""

    __slots__ = ("durabilities", "entries", "room", "store")

    def __init__(
        self,
        lane: StoreLane,
        origin: Account,
        answerable: Answerable,
        mark: Message,
        entries: list[GroupEntry],
        room: int,
        durabilities: list[StoreDurability],
        store: StoreActor,
    ) -> None:
        super().__init__(lane, origin, answerable, [mark])
        self.entries = entries
        self.room = room
        self.durabilities = durabilities
        self.store = store

    def lanes(self) -> list[StoreLane]:
        return [durability.lane for durability in self.durabilities]

    def append_to(self, log: MessageLog, now_ms: int) -> GroupAppend | None:
        for durability in self.durabilities:
            self.store.hasten(durability.lane)
        entries = self.entries
        self.entries = []
        return GroupAppend(log, entries, self.room, now_ms)
