"""From an exchange and routing keys to queues: the exchange graph of a vhost. COMPILED.

A publish walks breadth first from its exchange. Each exchange is visited once; one that matches
nothing at all, neither queue nor exchange, hands over to its alternate exchange; every queue found
gets the message once. Visiting once makes cycles harmless:

    exchanges visited by one publish  <=  min(exchanges, hops_max)

`epoch` grows with every change after which the same publish could go somewhere else, so a route
remembered together with its epoch is right for as long as the epochs are equal. The exchanges
report their own changes; nobody else has to remember to.
"""

from collections.abc import Mapping, Sequence

from mypy_extensions import i64

from penstock.base.limits import EXCHANGE_HOPS_MAX
from penstock.routing.bindings import Binding
from penstock.routing.default import DEFAULT_EXCHANGE_NAME, DefaultExchange
from penstock.routing.destination import Destination
from penstock.routing.directory import QueueLookup
from penstock.routing.exchange import Exchange, Topology, words_of


class RouterSnapshot:
    """A router's numbers at one moment; nothing changes them later.

    destination_count: queues and exchanges to which at least one binding leads.
    """

    __slots__ = (
        "binding_count",
        "destination_count",
        "epoch",
        "exchange_count",
        "visits_refused",
    )

    def __init__(
        self,
        exchange_count: int,
        binding_count: int,
        destination_count: int,
        epoch: int,
        visits_refused: int,
    ) -> None:
        self.exchange_count = exchange_count
        self.binding_count = binding_count
        self.destination_count = destination_count
        self.epoch = epoch
        self.visits_refused = visits_refused


class Router(Topology):
    """The exchanges of one vhost by name, the default exchange among them, over its queue `lookup`.

    epoch: see above; only ever grows.
    binding_count: explicit bindings of all exchanges.
    property_exchanges: exchanges that want properties among the headers.
    work: steps that all matches took so far.
    visits_refused: exchanges that publishes did not visit because of `hops_max`.
    """

    __slots__ = (
        "_asked",
        "_exchanges",
        "_headers_answers",
        "_headers_epoch",
        "_headers_exchanges",
        "_hops_max",
        "_key",
        "_sources",
        "_words",
        "binding_count",
        "epoch",
        "property_exchanges",
        "visits_refused",
        "work",
    )

    def __init__(self, lookup: QueueLookup, hops_max: int = EXCHANGE_HOPS_MAX.default) -> None:
        if hops_max < 1:
            raise AssertionError(f"hops_max must be at least 1, not {hops_max}")
        super().__init__()
        self._hops_max = hops_max
        self._exchanges: dict[str, Exchange] = {}
        self._sources: dict[Destination, dict[Exchange, None]] = {}
        self._key = ""
        self._words: list[str] = []
        self._asked: list[Exchange] = []
        self._headers_exchanges = 0
        self.property_exchanges = 0
        self.work: i64 = 0
        self._headers_answers: dict[Exchange, bool] = {}
        self._headers_epoch = 0
        self.epoch = 0
        self.binding_count = 0
        self.visits_refused = 0
        self.add_exchange(DefaultExchange(lookup))
        lookup.attach(self)

    def route(
        self,
        exchange: Exchange,
        routing_keys: Sequence[str],
        headers: Mapping[str, object] | None,
    ) -> list[Destination]:
        """The queues that a message goes to, each once, in the order in which they are found.

        routing_keys: one or more; the message's own first, then those of CC and BCC.
        headers: may be None while `needs_headers(exchange)` is False.
        """
        found: list[Destination] = []
        if self._asked:
            self._asked.clear()
        _match(exchange, routing_keys, headers, found)
        if found:
            if exchange.links:
                return self._walk(exchange, routing_keys, headers, found)
            if len(found) == 1 or (exchange.gives_once and len(routing_keys) == 1):
                return found
            return list(dict.fromkeys(found))
        if exchange.alternate is not None:
            return self._walk(exchange, routing_keys, headers, found)
        return found

    def settle(self) -> None:
        """The message of the last `route` was accepted: exchanges may remember it."""
        for exchange in self._asked:
            exchange.settle()
        self._asked.clear()

    def asked(self, exchange: Exchange) -> None:
        """Hear from `exchange` that it wants to be told if this route is final."""
        self._asked.append(exchange)

    def needs_headers(self, exchange: Exchange) -> bool:
        """True if routes from `exchange` may depend on headers, so that they need decoding and
        must not be remembered by routing key. Looks through bound and alternate exchanges."""
        if self._headers_exchanges == 0:
            return False
        if self._headers_epoch != self.epoch:
            self._headers_answers.clear()
            self._headers_epoch = self.epoch
        answer = self._headers_answers.get(exchange)
        if answer is None:
            answer = self._reaches_headers(exchange)
            self._headers_answers[exchange] = answer
        return answer

    def find(self, name: str) -> Exchange | None:
        """The exchange called `name`; "" is the default exchange."""
        return self._exchanges.get(name)

    def exchanges(self) -> tuple[Exchange, ...]:
        """Every exchange, oldest first, beginning with the default exchange."""
        return tuple(self._exchanges.values())

    def bindings_to(self, destination: Destination) -> list[tuple[Exchange, Binding]]:
        """Every explicit binding that ends at `destination`, with the exchange it starts from."""
        found: list[tuple[Exchange, Binding]] = []
        for source in self._sources.get(destination, {}):
            for binding in source.bindings_to(destination):
                found.append((source, binding))
        return found

    def add_exchange(self, exchange: Exchange) -> None:
        """Take `exchange` in under its name, which must be free, with the bindings it has."""
        if exchange.name in self._exchanges:
            raise AssertionError(f"there is an exchange '{exchange.name}' already")
        self._exchanges[exchange.name] = exchange
        for destination in exchange.destinations():
            self._add_source(destination, exchange)
        self.binding_count += exchange.binding_count
        if exchange.needs_headers:
            self._headers_exchanges += 1
        if exchange.needs_properties:
            self.property_exchanges += 1
        exchange.attach(self)
        self.epoch += 1

    def remove_exchange(self, exchange: Exchange) -> list[Exchange]:
        """Remove `exchange`, the bindings that start or end at it, and every auto-delete exchange
        that loses its last binding by this. Returns the removed exchanges, `exchange` first; none
        if it is not in this router (any more)."""
        if exchange.name == DEFAULT_EXCHANGE_NAME:
            raise AssertionError("the default exchange stays, because clients may not delete it")
        removed: list[Exchange] = []
        self._remove_all([exchange], removed)
        return removed

    def drop_destination(self, destination: Destination) -> list[Exchange]:
        """Remove every binding to a queue that is going away. Returns the auto-delete exchanges
        that lost their last binding by this and were removed too."""
        removed: list[Exchange] = []
        self._remove_all(self._unlink(destination), removed)
        return removed

    def snapshot(self) -> RouterSnapshot:
        """The numbers of now."""
        return RouterSnapshot(
            len(self._exchanges),
            self.binding_count,
            len(self._sources),
            self.epoch,
            self.visits_refused,
        )

    def binding_added(self, exchange: Exchange, destination: Destination, is_first: bool) -> None:
        """Hear from `exchange` that it has a new binding."""
        if is_first:
            self._add_source(destination, exchange)
        self.binding_count += 1
        self.epoch += 1

    def bindings_removed(
        self, exchange: Exchange, destination: Destination, count: int, is_last: bool
    ) -> None:
        """Hear from `exchange` that it lost bindings to `destination`."""
        if is_last:
            self._remove_source(destination, exchange)
        self.binding_count -= count
        self.epoch += 1

    def alternate_changed(self, exchange: Exchange) -> None:
        """Hear from `exchange` that its alternate exchange is another."""
        self.epoch += 1

    def queues_changed(self) -> None:
        """Hear from the lookup that a name leads to another queue, or to none."""
        self.epoch += 1

    def worked(self, steps: i64) -> None:
        self.work += steps

    def words_of(self, key: str) -> list[str]:
        """The words of `key`, not to be changed. Each exchange of a chain asks for those of the
        same text, so the last ones are kept."""
        if key is not self._key:
            self._key = key
            self._words = words_of(key)
        return self._words

    def _walk(
        self,
        origin: Exchange,
        routing_keys: Sequence[str],
        headers: Mapping[str, object] | None,
        matched: list[Destination],
    ) -> list[Destination]:
        """The rest of `route` once `origin`, which matched `matched`, leads to other exchanges."""
        pending: list[Exchange] = [origin]
        seen: set[Exchange] = {origin}
        queues: dict[Destination, None] = {}
        position = 0
        while position < len(pending):
            exchange = pending[position]
            if position > 0:
                matched = []
                _match(exchange, routing_keys, headers, matched)
            position += 1
            if matched:
                for destination in matched:
                    if isinstance(destination, Exchange):
                        self._visit(destination, seen, pending)
                    else:
                        queues[destination] = None
            elif exchange.alternate is not None:
                alternate = self._exchanges.get(exchange.alternate)
                if alternate is not None:
                    self._visit(alternate, seen, pending)
        return list(queues)

    def _visit(self, exchange: Exchange, seen: set[Exchange], pending: list[Exchange]) -> None:
        if exchange in seen:
            return
        if len(pending) >= self._hops_max:
            self.visits_refused += 1
            return
        seen.add(exchange)
        pending.append(exchange)

    def _reaches_headers(self, origin: Exchange) -> bool:
        pending: list[Exchange] = [origin]
        seen: set[Exchange] = {origin}
        while pending:
            exchange = pending.pop()
            if exchange.needs_headers:
                return True
            following = list(exchange.links)
            if exchange.alternate is not None:
                alternate = self._exchanges.get(exchange.alternate)
                if alternate is not None:
                    following.append(alternate)
            for reached in following:
                if reached not in seen:
                    seen.add(reached)
                    pending.append(reached)
        return False

    def _remove_all(self, pending: list[Exchange], removed: list[Exchange]) -> None:
        """Remove the exchanges in `pending` and those that become due by it, oldest due first."""
        position = 0
        while position < len(pending):
            exchange = pending[position]
            position += 1
            if self._exchanges.get(exchange.name) is not exchange:
                continue
            del self._exchanges[exchange.name]
            for destination in exchange.destinations():
                exchange.drop_destination(destination)
            exchange.attach(None)
            if exchange.needs_headers:
                self._headers_exchanges -= 1
            if exchange.needs_properties:
                self.property_exchanges -= 1
            self.epoch += 1
            removed.append(exchange)
            pending.extend(self._unlink(exchange))

    def _unlink(self, destination: Destination) -> list[Exchange]:
        """Remove every binding to `destination`; the sources that are due to go by this."""
        due: list[Exchange] = []
        for source in list(self._sources.get(destination, {})):
            source.drop_destination(destination)
            if source.is_due:
                due.append(source)
        return due

    def _add_source(self, destination: Destination, exchange: Exchange) -> None:
        sources = self._sources.get(destination)
        if sources is None:
            self._sources[destination] = {exchange: None}
        else:
            sources[exchange] = None

    def _remove_source(self, destination: Destination, exchange: Exchange) -> None:
        sources = self._sources[destination]
        del sources[exchange]
        if not sources:
            del self._sources[destination]


def _match(
    exchange: Exchange,
    routing_keys: Sequence[str],
    headers: Mapping[str, object] | None,
    found: list[Destination],
) -> None:
    """Let `exchange` match each key, or once if it does not look at keys."""
    if exchange.needs_key:
        for key in routing_keys:
            exchange.match(key, headers, found)
    else:
        exchange.match("", headers, found)
