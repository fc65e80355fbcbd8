"""Bugs made on purpose in the stores of delayed message exchanges, one each."""

from heapq import heappop, heappush

from penstock.broker.actors.log import Log
from penstock.broker.dead_letter.delay_store import DelayRuling, DelayStore, DelayStores
from penstock.protocol.content import Message
from penstock.queues.delayed import DelayedMessages
from penstock.queues.ruled import RuledQueue
from penstock.queues.rules import NEVER
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.world.world import SimulatedBroker, WorldSetting
from tests.simulation.planted import Planted


class Halves(DelayedMessages):
    """Releases what is due in a while."""

    def expire(self, now_ns: int, budget: int) -> int:
        return super().expire(now_ns + 4_000_000, budget)


class TurnsRound(DelayedMessages):
    """Of two that are due the second goes first."""

    def expire(self, now_ns: int, budget: int) -> int:
        waiting = self.waiting
        if len(waiting) > 1 and max(waiting[0][0], waiting[1][0]) <= now_ns:
            first, second = heappop(waiting), heappop(waiting)
            heappush(waiting, (first[0], first[1], second[2]))
            heappush(waiting, (second[0], second[1], first[2]))
        return super().expire(now_ns, budget)


class Sleeps(DelayedMessages):
    """Never says when the next one is due."""

    def next_expiry_ns(self) -> int:
        return NEVER


class Purges(DelayedMessages):
    """Forgets whom to repay when the exchange goes."""

    def purge(self) -> int:
        self.waiting.clear()
        return super().purge()


class KeepsTheCharge(DelayRuling):
    """What is released is on its publisher's page for ever."""

    def dropped(self, message: Message, reason: int) -> None:
        self.released_count += 1
        if self.dead_letters is not None:
            self.dead_letters.dropped(message, reason)


class LosesOne(DelayRuling):
    """The ninth message that is released goes nowhere."""

    def dropped(self, message: Message, reason: int) -> None:
        letters = self.dead_letters
        if int(self.released_count) % 9 == 8:
            self.dead_letters = None
        super().dropped(message, reason)
        self.dead_letters = letters


class ReleasesTwice(DelayRuling):
    """Every ninth message is published twice."""

    def dropped(self, message: Message, reason: int) -> None:
        if int(self.released_count) % 9 == 8 and self.dead_letters is not None:
            self.dead_letters.dropped(message, reason)
        super().dropped(message, reason)


class TakesAll(DelayRuling):
    """Has no bound."""

    def begin(self, messages_max: int, bytes_max: int) -> None:
        super().begin(messages_max * 100, bytes_max)


RECORDS: dict[str, type[DelayedMessages]] = {
    "early": Halves,
    "turned": TurnsRound,
    "sleeping": Sleeps,
    "purged": Purges,
}
RULINGS: dict[str, type[DelayRuling]] = {
    "charged": KeepsTheCharge,
    "lost": LosesOne,
    "twice": ReleasesTwice,
    "boundless": TakesAll,
}


class OtherRecords(DelayRuling):
    """Keeps its messages in `kind`."""

    kind: type[DelayedMessages] = DelayedMessages

    def make_records(self) -> RuledQueue:
        return self.kind(self.rules, self)


class DelayBug(Planted):
    """A broker whose stores have the bug `name`."""

    def __init__(self, base: WorldSetting, name: str) -> None:
        super().__init__(base)
        self.name = name

    def broker(self, clock: VirtualClock, dice: Dice, log: Log) -> SimulatedBroker:
        broker = super().broker(clock, dice, log)
        name = self.name

        class Desk(DelayStores):
            def make_ruling(self, store: DelayStore) -> DelayRuling:
                if name in RULINGS:
                    return RULINGS[name](store, self.dues)
                ruling = OtherRecords(store, self.dues)
                ruling.kind = RECORDS[name]
                return ruling

        old = broker.delays
        broker.delays = Desk(broker.context, old.letters)
        return broker
