"""What the clients know: every publish, confirm, delivery and answer, and what must follow.

This is the twin the broker is compared with; it looks at the wire only. For each queue and
publishing channel:
    order      fresh deliveries to one consumer come in the order of publishing
    once       a message is fresh at most once in a queue
    prefix     what arrived of one channel's publishes for a queue is a prefix of them
    no loss    what was confirmed, or published by a client that closed in order, arrived
    no return  what was acknowledged for certain is never seen again
A queue behind a delayed message exchange has no order. Queues that were deleted are left out, and
so are messages of auto-ack consumers that vanished.
"""

from collections.abc import Iterable

from penstock.simulation.machine.faults import LawBroken

Identity = tuple[int, int]
"""(key of the publishing channel, number of the publish on it from 0)."""


class Publishes:
    """One publishing channel. `queues[i]`: where publish i goes; `is_certain`: it closed in order,
    so all of it counts; `confirmed`: numbers the broker has confirmed."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.queues: list[tuple[str, ...]] = []
        self.confirmed: set[int] = set()
        self.is_certain = False


class Books:
    """The whole twin; owner: the world."""

    def __init__(self) -> None:
        self.channels: list[Publishes] = []
        self.destroyed: set[str] = set()
        self.leaky: set[str] = set()
        self.unordered: set[str] = set()
        self.seen: dict[str, set[Identity]] = {}
        self.settled: dict[str, dict[Identity, int]] = {}
        self._last: dict[tuple[str, int, int], int] = {}
        self.delivered_count = 0
        self.confirmed_count = 0

    # -- publishers ------------------------------------------------------------------------------

    def begin_channel(self) -> Publishes:
        """A channel starts to publish."""
        channel = Publishes(len(self.channels))
        self.channels.append(channel)
        return channel

    def published(self, channel: Publishes, queues: tuple[str, ...]) -> Identity:
        """One publish is said; its identity."""
        channel.queues.append(queues)
        return channel.key, len(channel.queues) - 1

    def confirmed(self, channel: Publishes, number: int) -> None:
        """Raises: LawBroken when it was confirmed before."""
        if number in channel.confirmed:
            raise LawBroken(f"publish {number} of channel {channel.key} is confirmed twice")
        channel.confirmed.add(number)
        self.confirmed_count += 1

    def refused(self, channel: Publishes, number: int) -> None:
        """Raises: LawBroken unless one of its queues has failed, and if it was confirmed before."""
        if number in channel.confirmed:
            raise LawBroken(f"publish {number} of channel {channel.key} is confirmed and refused")
        if self.is_lasting(channel.queues[number]):
            raise LawBroken(f"publish {number} of channel {channel.key} was refused")

    def is_lasting(self, queues: tuple[str, ...]) -> bool:
        """Whether a publish to `queues` has somewhere to go, and nothing has happened to it."""
        return len(queues) > 0 and self.destroyed.isdisjoint(queues)

    # -- consumers -------------------------------------------------------------------------------

    def delivered(self, queue: str, consumer: int, identity: Identity, redelivered: bool) -> None:
        """A consumer was given a message. Raises: LawBroken."""
        self.delivered_count += 1
        self._is_expected(queue, identity)
        if queue in self.destroyed:
            return
        if identity in self.settled.get(queue, {}):
            raise LawBroken(f"{queue}: {identity} was acknowledged and came again")
        seen = self.seen.setdefault(queue, set())
        if redelivered:
            seen.add(identity)
            return
        if identity in seen:
            raise LawBroken(f"{queue}: {identity} is fresh for the second time")
        seen.add(identity)
        place = (queue, consumer, identity[0])
        if self._last.get(place, -1) >= identity[1] and queue not in self.unordered:
            raise LawBroken(f"{queue}: {identity} came after {self._last[place]}")
        self._last[place] = identity[1]

    def acknowledged(self, queue: str, identity: Identity, link: int) -> None:
        """An answer is on its way over connection `link`, which counts while `link` lives."""
        self.settled.setdefault(queue, {})[identity] = link

    def unsettle(self, link: int) -> None:
        """Connection `link` is lost: its last answers may never arrive."""
        for settled in self.settled.values():
            for identity in [one for one, by in settled.items() if by == link]:
                del settled[identity]

    # -- the end ---------------------------------------------------------------------------------

    def check_end(self, left: dict[str, list[Identity]]) -> None:
        """Compare with what is `left` in the queues. Raises: LawBroken."""
        arrived: dict[str, set[Identity]] = {name: set(seen) for name, seen in self.seen.items()}
        for queue, identities in left.items():
            if queue in self.destroyed:
                continue
            self._check_left(queue, identities)
            arrived.setdefault(queue, set()).update(identities)
        for channel in self.channels:
            self._check_channel(channel, arrived)

    def _check_left(self, queue: str, identities: list[Identity]) -> None:
        if len(set(identities)) != len(identities):
            raise LawBroken(f"{queue}: a message lies in it twice")
        for identity in identities:
            self._is_expected(queue, identity)
            if identity in self.settled.get(queue, {}):
                raise LawBroken(f"{queue}: {identity} was acknowledged and is still there")

    def _check_channel(self, channel: Publishes, arrived: dict[str, set[Identity]]) -> None:
        missing: dict[str, int] = {}
        for number, queues in enumerate(channel.queues):
            is_due = channel.is_certain or number in channel.confirmed
            for queue in self._lasting(queues):
                if (channel.key, number) not in arrived.get(queue, ()):
                    missing.setdefault(queue, number)
                    if is_due:
                        how = "confirmed" if number in channel.confirmed else "published in order"
                        raise LawBroken(
                            f"{queue}: publish {number} of channel {channel.key} was {how} and "
                            "is lost"
                        )
                elif queue in missing:
                    raise LawBroken(
                        f"{queue}: publish {number} of channel {channel.key} arrived, but "
                        f"{missing[queue]} before it did not"
                    )

    def _lasting(self, queues: Iterable[str]) -> list[str]:
        return [name for name in queues if name not in self.destroyed and name not in self.leaky]

    def _is_expected(self, queue: str, identity: Identity) -> None:
        key, number = identity
        if key >= len(self.channels) or number >= len(self.channels[key].queues):
            raise LawBroken(f"{queue}: {identity} was never published")
        if queue not in self.channels[key].queues[number]:
            raise LawBroken(f"{queue}: {identity} does not belong here")
