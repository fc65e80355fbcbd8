"""Where a commit waits for queues that are full for now: in line with everybody else who does.

A queue that is too deep hands its room out in rations to those whose grants its gate keeps, and a
gate that opens is closed again by those it lets in. A commit that only looked now and then would
wait for as long as there are publishers who press, so it stands between them. And commits that
overlap would keep publishers out: so none goes to a queue that another holds while they wait there.
"""

from mypy_extensions import i64

from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.store.durability import StoreDurability
from penstock.flow.gate import Deferred
from penstock.protocol.content import Message
from penstock.queues.queue import MESSAGE_OVERHEAD_BYTES


class Place(Deferred):
    """In the line of one gate. left_bytes: of the commit's share, not granted yet; is_granted: all
    of it is, so that this queue does not hold the commit any more."""

    __slots__ = ("is_granted", "left_bytes")

    def __init__(self, bytes_: i64) -> None:
        self.left_bytes: i64 = bytes_
        self.is_granted = False

    def release(self) -> None:
        self.left_bytes = 0
        self.is_granted = True

    def kept_bytes(self) -> i64:
        return self.left_bytes

    def release_part(self, bytes_: i64) -> None:
        self.left_bytes -= bytes_


class CommitLine:
    """places: of one commit, by queue."""

    __slots__ = ("places",)

    def __init__(self) -> None:
        self.places: dict[QueueActor, Place] = {}

    def is_held(self, shared: dict[QueueActor, list[Message]]) -> bool:
        """Whether a queue takes nothing for now, in whose line the commit stands then. shared: what
        each is to get."""
        is_held = False
        for actor, messages in shared.items():
            if not actor.is_alive:
                continue
            keeper = actor.keeper
            if actor.pending and isinstance(keeper, StoreDurability) and keeper.commits > 0:
                is_held = True
            if actor.stop_reason() == "":
                continue
            place = self.places.get(actor)
            if place is None:
                place = self.places[actor] = Place(_bytes_of(messages))
                actor.gate.deferred.append(place)
            if not place.is_granted:
                is_held = True
        return is_held

    def leave(self) -> None:
        """It waits for nobody any more."""
        for actor, place in self.places.items():
            actor.gate.drop(place)
        self.places = {}


def _bytes_of(messages: list[Message]) -> i64:
    total: i64 = 0
    for message in messages:
        total += len(message.raw) + MESSAGE_OVERHEAD_BYTES
    return total
