"""Bugs made on purpose in the stores of delayed message exchanges, one each."""

from heapq import heappop, heappush

from penstock.base.config import Config
from penstock.broker.actors.log import Log
from penstock.broker.dead_letter.delay_store import DelayLimits, DelayStore, DelayStores
from penstock.flow.profile import Profile
from penstock.protocol.content import Message
from penstock.queues.delayed import DelayedMessages
from penstock.queues.priorities import PriorityQueue
from penstock.queues.queue import Purged
from penstock.queues.rules import NEVER
from penstock.simulation.machine.clock import VirtualClock
from penstock.simulation.machine.dice import Dice
from penstock.simulation.world.world import SimulatedBroker, WorldSetting


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

    def purge(self) -> Purged:
        self.waiting.clear()
        return super().purge()


class KeepsTheCharge(DelayLimits):
    """What is released is on its publisher's page for ever."""

    def dropped(self, message: Message, reason: int) -> None:
        self.released_count += 1
        if self.dead_letters is not None:
            self.dead_letters.dropped(message, reason)


class LosesOne(DelayLimits):
    """The ninth message that is released goes nowhere."""

    def dropped(self, message: Message, reason: int) -> None:
        letters = self.dead_letters
        if int(self.released_count) % 9 == 8:
            self.dead_letters = None
        super().dropped(message, reason)
        self.dead_letters = letters


class ReleasesTwice(DelayLimits):
    """Every ninth message is published twice."""

    def dropped(self, message: Message, reason: int) -> None:
        if int(self.released_count) % 9 == 8 and self.dead_letters is not None:
            self.dead_letters.dropped(message, reason)
        super().dropped(message, reason)


class TakesAll(DelayLimits):
    """Has no bound."""

    def begin(self, messages_max: int, bytes_max: int) -> None:
        super().begin(messages_max * 100, bytes_max)


RECORDS: dict[str, type[DelayedMessages]] = {
    "early": Halves,
    "turned": TurnsRound,
    "sleeping": Sleeps,
    "purged": Purges,
}
RULINGS: dict[str, type[DelayLimits]] = {
    "charged": KeepsTheCharge,
    "lost": LosesOne,
    "twice": ReleasesTwice,
    "boundless": TakesAll,
}


class OtherRecords(DelayLimits):
    """Keeps its messages in `kind`."""

    kind: type[DelayedMessages] = DelayedMessages

    def make_records(self) -> PriorityQueue:
        return self.kind(self.rules, self)


def plant_delay_bug(setting: WorldSetting, name: str) -> WorldSetting:
    """`setting` with a broker whose stores have the bug `name`."""

    class Stores(DelayStores):
        def make_limits(self, store: DelayStore) -> DelayLimits:
            if name in RULINGS:
                return RULINGS[name](store, self.dues)
            queue_limits = OtherRecords(store, self.dues)
            queue_limits.kind = RECORDS[name]
            return queue_limits

    def broker(
        config: Config, clock: VirtualClock, dice: Dice, log: Log, profile: Profile
    ) -> SimulatedBroker:
        made = SimulatedBroker(config, clock, dice, log, profile)
        made.delays = Stores(made.context, made.delays.letters)
        return made

    setting.steps_max = 60_000
    setting.broker = broker
    return setting
