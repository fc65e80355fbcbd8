"""The exchanges, queues and bindings of an import, checked against each other and what there is.

Things are made here as they would be declared, so that whatever refuses a declaration refuses the
file; they are put in their places only after everything was checked.
"""

from dataclasses import dataclass
from typing import Final

from penstock.base.errors import ChannelFault, PeerError
from penstock.base.limits import BINDINGS_PER_VHOST, QUEUES_PER_VHOST
from penstock.broker.admin.definitions_rows import (
    Row,
    arguments_at,
    fault,
    flag_at,
    name_at,
    text_at,
)
from penstock.broker.broker import Broker
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.entry_limits import QUEUES
from penstock.broker.vhost.queue_arguments import (
    TYPE_KEY,
    check_exchange,
    check_properties,
    check_queue,
    check_type,
)
from penstock.broker.vhost.stream_arguments import STREAM
from penstock.broker.vhost.vhost import PREDECLARED
from penstock.protocol.values import Table
from penstock.queues.rules import NEVER, QUORUM
from penstock.routing.bindings import Binding
from penstock.routing.canonical import canonical
from penstock.routing.delayed import DelayedExchange
from penstock.routing.destination import Destination
from penstock.routing.exchange import Exchange
from penstock.routing.factory import EXCHANGE_KINDS, make_exchange

RESERVED: Final = "amq."
CLASSIC: Final = "classic"
KINDS_OF_QUEUES: Final = (CLASSIC, QUORUM, STREAM)


@dataclass(frozen=True, slots=True)
class QueuePlan:
    """A queue to declare."""

    vhost: str
    name: str
    is_durable: bool
    is_auto_delete: bool
    arguments: Table


@dataclass(frozen=True, slots=True)
class BindingPlan:
    """A binding to make."""

    vhost: str
    source: str
    is_to_exchange: bool
    destination: str
    routing_key: str
    arguments: Table


class TopologyPlan:
    """exchanges: new ones by virtual host and name; notes: shared with the rest of the plan."""

    def __init__(self, broker: Broker, notes: list[str]) -> None:
        self.broker = broker
        self.notes = notes
        self.exchanges: dict[tuple[str, str], Exchange] = {}
        self.queues: dict[tuple[str, str], QueuePlan] = {}
        self.bindings: list[BindingPlan] = []
        self._given = {name: make_exchange(kind, name, True) for name, kind in PREDECLARED}

    def change_count(self) -> int:
        # A delayed exchange has a store, which is kept as a queue is.
        stores = sum(1 for one in self.exchanges.values() if isinstance(one, DelayedExchange))
        return len(self.exchanges) + stores + len(self.queues) + len(self.bindings)

    def exchange(self, place: str, row: Row, vhost: str) -> None:
        name = name_at(place, row, "name")
        kind = text_at(place, row, "type")
        durable = flag_at(place, row, "durable", True)
        auto_delete = flag_at(place, row, "auto_delete", False)
        internal = flag_at(place, row, "internal", False)
        arguments = arguments_at(place, row)
        if name == "" or name.startswith(RESERVED):
            self._note(place, f"exchange '{name}' is the broker's own, and there already")
            return
        if kind not in EXCHANGE_KINDS:
            known = ", ".join(EXCHANGE_KINDS)
            self._note(place, f"exchanges of type '{kind}' are not known here (known: {known})")
            return
        try:
            check_exchange(name, vhost, arguments)
            made = make_exchange(kind, name, durable, auto_delete, internal, arguments)
        except PeerError as error:
            raise fault(place, error.text) from error
        found = self._exchange(vhost, name)
        if found is None:
            self.exchanges[vhost, name] = made
        elif _traits(found) != _traits(made):
            self._note(place, f"exchange '{name}' is there with other properties, and stays so")

    def queue(self, place: str, row: Row, vhost: str) -> None:
        name = name_at(place, row, "name")
        arguments = arguments_at(place, row)
        kind = arguments.get(TYPE_KEY, row.get("type", CLASSIC))
        if kind in KINDS_OF_QUEUES and kind != CLASSIC:
            # What the type says beside the arguments, they have to say when it is declared.
            arguments[TYPE_KEY] = str(kind)
        plan = QueuePlan(
            vhost,
            name,
            flag_at(place, row, "durable", True),
            flag_at(place, row, "auto_delete", False),
            arguments,
        )
        if name == "":
            raise fault(f"{place}.name", "is empty")
        if name.startswith(RESERVED):
            self._note(place, f"queue '{name}' was named by a broker, and belongs to no other")
            return
        if kind not in KINDS_OF_QUEUES:
            self._note(place, f"queue '{name}' is of type {kind!r}, which is not known here")
            return
        try:
            check_queue(name, vhost, arguments)
            check_type(name, vhost, arguments)
            check_properties(name, vhost, plan.is_durable, plan.is_auto_delete, False, arguments)
        except ChannelFault as error:
            raise fault(place, error.text) from error
        found = self._queue(vhost, name)
        if found is None:
            self.queues[vhost, name] = plan
        elif _traits_of_queue(found) != _traits_of_queue(plan):
            self._note(place, f"queue '{name}' is there with other properties, and stays so")

    def binding(self, place: str, row: Row, vhost: str) -> None:
        kind = text_at(place, row, "destination_type", "queue")
        if kind not in ("queue", "exchange"):
            raise fault(f"{place}.destination_type", f"must be queue or exchange, not '{kind}'")
        plan = BindingPlan(
            vhost,
            name_at(place, row, "source"),
            kind == "exchange",
            name_at(place, row, "destination"),
            name_at(place, row, "routing_key", ""),
            arguments_at(place, row),
        )
        if plan.source == "":
            self._note(place, "bindings of the default exchange cannot be declared")
            return
        source = self._exchange(vhost, plan.source)
        if source is None:
            self._note(place, f"there is no exchange '{plan.source}', here or in the file")
            return
        found: object
        if plan.is_to_exchange:
            found = self._exchange(vhost, plan.destination)
        else:
            found = self._queue(vhost, plan.destination)
        if found is None:
            self._note(place, f"there is no {kind} '{plan.destination}', here or in the file")
            return
        try:
            source.check(Binding(Destination(plan.destination), plan.routing_key, plan.arguments))
        except PeerError as error:
            raise fault(place, error.text) from error
        self.bindings.append(plan)

    def check_counts(self, limited: dict[str, Row]) -> None:
        """limited: limits of virtual hosts that come with the same file. Raises: OperatorError."""
        wanted: dict[str, int] = {}
        for home, _ in self.queues:
            wanted[home] = wanted.get(home, 0) + 1
        for name, count in wanted.items():
            vhost = self.broker.vhosts.get(name)
            there = 0 if vhost is None else vhost.counted_queues()
            limit = QUEUES_PER_VHOST.default if vhost is None else vhost.queues_max
            asked = limited.get(name, {}).get(QUEUES)
            if asked is None and vhost is not None and vhost.queue_limit != NEVER:
                asked = int(vhost.queue_limit)
            if isinstance(asked, int) and 0 <= asked < limit:
                limit = asked
            if there + count > limit:
                raise fault(
                    "queues",
                    f"vhost '{name}' has {there} queues and would get {count} more; its limit is "
                    f"{limit}",
                )
        self._check_bindings()

    def _check_bindings(self) -> None:
        wanted: dict[str, int] = {}
        for one in self.bindings:
            wanted[one.vhost] = wanted.get(one.vhost, 0) + 1
        for name, count in wanted.items():
            vhost = self.broker.vhosts.get(name)
            there = 0 if vhost is None else vhost.router.binding_count
            limit = BINDINGS_PER_VHOST.default if vhost is None else vhost.bindings_max
            # Those that are there already count twice here: a file of half the limit may be large.
            if there + count > limit:
                raise fault(
                    "bindings",
                    f"vhost '{name}' has {there} bindings and would get {count} more; its limit "
                    f"is {limit}",
                )

    def _exchange(self, vhost: str, name: str) -> Exchange | None:
        planned = self.exchanges.get((vhost, name))
        there = self.broker.vhosts.get(vhost)
        if planned is not None:
            return planned
        if there is not None:
            return there.find_exchange(name)
        return self._given.get(name)

    def _queue(self, vhost: str, name: str) -> QueueActor | QueuePlan | None:
        planned = self.queues.get((vhost, name))
        there = self.broker.vhosts.get(vhost)
        if planned is not None or there is None:
            return planned
        return there.queues.get(name)

    def _note(self, place: str, text: str) -> None:
        self.notes.append(f"{place}: {text}; passed over")


def _traits(one: Exchange) -> tuple[object, ...]:
    return one.kind, one.durable, one.auto_delete, one.internal, canonical(one.arguments)


def _traits_of_queue(one: QueueActor | QueuePlan) -> tuple[object, ...]:
    if isinstance(one, QueuePlan):
        return one.is_durable, one.is_auto_delete, canonical(one.arguments)
    return one.durable, one.auto_delete, canonical(one.arguments)
