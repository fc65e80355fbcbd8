"""What a commit hands to the message store: all of its messages for all of their queues, in one.

They become one group of the log (storage/log/groups), so a crash leaves all of them or none. What
the queues had on its way to the store before goes first, so that the order on the disk is theirs.
"""

from penstock.broker.actors.lane import Answerable
from penstock.broker.store.durability import StoreDurability
from penstock.broker.store.store_actor import StoreActor
from penstock.broker.store.write_request import StoreLane, StoreRequest
from penstock.flow.account import Account
from penstock.protocol.content import Message
from penstock.storage.log.groups import GroupEntry, append_group
from penstock.storage.log.log import MessageLog


class GroupRequest(StoreRequest):
    """entries: of the group, the mark of its app among them; durabilities: of its queues, which
    take nothing else until `answerable` is told."""

    __slots__ = ("durabilities", "entries", "store")

    def __init__(
        self,
        lane: StoreLane,
        origin: Account,
        answerable: Answerable,
        mark: Message,
        entries: list[GroupEntry],
        durabilities: list[StoreDurability],
        store: StoreActor,
    ) -> None:
        super().__init__(lane, origin, answerable, [mark])
        self.entries = entries
        self.durabilities = durabilities
        self.store = store

    def append_to(self, log: MessageLog, now_ms: int) -> None:
        for durability in self.durabilities:
            self.store.hasten(durability.lane)
        entries: list[GroupEntry] = []
        for entry in self.entries:
            # A queue may have been deleted since.
            if not entry.index.is_dropped:
                entries.append(entry)
        append_group(log, entries, now_ms)
