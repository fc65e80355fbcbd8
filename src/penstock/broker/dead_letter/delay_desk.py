"""Who gives exchanges what they need: a store to those that delay, taken away with the exchange; a
clock to those that know duplicates by time."""

from collections.abc import Callable

from penstock.base.config import Config
from penstock.broker.actors.actor import Scheduler
from penstock.broker.actors.log import Log
from penstock.broker.dead_letter.delay_store import (
    DelayedLetters,
    DelayRuling,
    DelayStore,
    StoreHost,
)
from penstock.broker.dead_letter.letter_desk import LetterDesk
from penstock.broker.vhost.vhost import ExchangeDesk, VirtualHost
from penstock.flow.due import DueLine
from penstock.flow.strategy import Strategy
from penstock.routing.deduplication import DeduplicationExchange
from penstock.routing.delayed import DelayedExchange, StoreKeeper
from penstock.routing.exchange import Exchange
from penstock.telemetry.events import ACTOR_UP


class Keeper(StoreKeeper):
    """The store of one exchange as the exchange sees it."""

    def __init__(self, vhost: VirtualHost, store: DelayStore) -> None:
        self.vhost = vhost
        self.store = store

    def exchange_gone(self) -> None:
        self.vhost.remove_queue(self.store)


class Host(StoreHost):
    """The desk as its stores see it; apart from it, because compiled bases do not mix."""

    def __init__(self, desk: "DelayDesk") -> None:
        self.desk = desk

    def store_failed(self, store: DelayStore) -> None:
        self.desk.give(self.desk.vhosts[store.vhost], store.exchange, store.queue_id)

    def store_dropped(self, store: DelayStore, count: int, is_crash: bool) -> None:
        self.desk.dropped(store, count, is_crash)


class DelayDesk(ExchangeDesk):
    """vhosts: of the broker, live; strategy, fair_bytes: of its profile; messages_max, bytes_max:
    of one store; dropped_count: messages that went with their exchange. Owner: the broker."""

    def __init__(
        self,
        config: Config,
        vhosts: dict[str, VirtualHost],
        scheduler: Scheduler,
        strategy: Callable[[], Strategy],
        fair_bytes: Callable[[], int],
        dues: DueLine,
        letters: LetterDesk,
        log: Log,
    ) -> None:
        self.vhosts = vhosts
        self.scheduler = scheduler
        self.strategy = strategy
        self.fair_bytes = fair_bytes
        self.dues = dues
        self.letters = letters
        self.log = log
        self.messages_max = config.delayed_messages_max
        self.bytes_max = config.delayed_bytes_max
        self.dropped_count = 0
        self.host = Host(self)
        for vhost in vhosts.values():
            vhost.exchange_desk = self

    def exchange_made(self, vhost: VirtualHost, exchange: Exchange) -> None:
        if isinstance(exchange, DelayedExchange):
            self.give(vhost, exchange)
            exchange = exchange.inner
        if isinstance(exchange, DeduplicationExchange):
            exchange.clock = self.scheduler.clock

    def give(self, vhost: VirtualHost, exchange: DelayedExchange, queue_id: int = 0) -> None:
        """A new store for `exchange`, which has none. queue_id: under which one that has failed was
        kept; what that had on the disk comes back with the next start, into this one's place.

        Raises: ChannelFault 406 while it cannot be kept, and then nothing has changed."""
        store = DelayStore(vhost.name, exchange, self.host, self.scheduler, self.strategy())
        store.queue_id = queue_id or vhost.catalogue.queue_added(store)
        store.fair_bytes = self.fair_bytes()
        ruling = self.make_ruling(store)
        ruling.begin(self.messages_max, self.bytes_max)
        ruling.dead_letters = DelayedLetters(store, self.letters, ruling)
        store.ruling = ruling
        vhost.add_store(store)
        exchange.store = store.target
        exchange.keeper = Keeper(vhost, store)
        self.scheduler.recorder.record(ACTOR_UP, store.identity, "", "", 0)

    def make_ruling(self, store: DelayStore) -> DelayRuling:
        """What a new store goes by."""
        return DelayRuling(store, self.dues)

    def dropped(self, store: DelayStore, count: int, is_crash: bool) -> None:
        """The store goes with its exchange or, after a crash, alone, and `count` messages with
        it."""
        if count == 0:
            return
        self.dropped_count += count
        end = "were dropped with it"
        if is_crash and store.queue_id > 0:
            end += "; those on the disk come back with the next start"
        self.log.warning(f"{store.consumers_id()}: {count} delayed messages {end}")

    def keep_all(self) -> None:
        """The broker has a catalogue now: stores of durable exchanges that are not in it, because a
        crash came in between or Penstock was older, are put there. Raises: ChannelFault 406."""
        for vhost in self.vhosts.values():
            for store in vhost.queues.values():
                if store.delays and store.queue_id == 0:
                    store.queue_id = vhost.catalogue.queue_added(store)
