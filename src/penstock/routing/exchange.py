"""What all exchanges share: attributes, bindings, life cycle, news of changes. COMPILED.

A kind of exchange adds an index for its own way of matching: `check`, `index`, `unindex` and
`match`. Every change goes through `bind`, `unbind`, `drop_destination` or `set_policy_alternate`
below, and each of them tells the `Topology`, so that no change can leave an old route cached.
"""

from collections.abc import Mapping
from typing import Final

from mypy_extensions import i64

from penstock.routing.bindings import Binding, BindingBounds, Bindings
from penstock.routing.destination import Destination
from penstock.routing.search import Search

ALTERNATE_ARGUMENT: Final = "alternate-exchange"


class Topology:
    """Hears of every change to the exchanges and queue names that belong to it, and keeps what its
    exchanges share: the router. search: of the publish that is being routed, None for one whose
    matches are made in one piece."""

    __slots__ = ("search",)

    def __init__(self) -> None:
        self.search: Search | None = None

    def binding_added(self, exchange: "Exchange", destination: Destination, is_first: bool) -> None:
        """`exchange` got a binding to `destination`; `is_first`: it had none to it before."""
        raise AssertionError("a topology must say what a new binding changes")

    def bindings_removed(
        self, exchange: "Exchange", destination: Destination, count: int, is_last: bool
    ) -> None:
        """`exchange` lost `count` bindings to `destination`; `is_last`: none is left to it."""
        raise AssertionError("a topology must say what a lost binding changes")

    def alternate_changed(self, exchange: "Exchange") -> None:
        """`exchange` has another alternate exchange, or none any more."""
        raise AssertionError("a topology must say what another alternate changes")

    def queues_changed(self) -> None:
        """A name leads to another queue than before, or to none."""
        raise AssertionError("a topology must say what another queue changes")

    def asked(self, exchange: "Exchange") -> None:
        """`exchange` has matched a message and wants to hear when that is final: `settle`."""

    def worked(self, steps: i64) -> None:
        """A match took so many steps, each of the order of comparing two values."""
        raise AssertionError("a topology must count what matching costs")

    def words_of(self, key: str) -> list[str]:
        """The words of `key`, not to be changed; one that is asked for again may be remembered."""
        return words_of(key)


class Exchange(Destination):
    """An exchange of some `kind`. Attributes are read by anyone and written only in this file.

    alternate: name of the exchange tried when nothing matched, or None. The declared argument
        wins over a policy, as in RabbitMQ; an argument that is not text counts as absent, because
        the declaring side has to refuse it with a text that names the vhost.
    links: the exchanges bound as destinations; while empty, a match holds queues only.
    needs_headers, needs_key: whether `match` looks at the headers, at the routing key.
    needs_properties: whether it wants properties among the headers (consistent_hash).
    gives_once: True if one `match` never appends a destination twice.
    had_bindings: True once anything was bound, until the end of its life.
    """

    __slots__ = (
        "_bindings",
        "_topology",
        "alternate",
        "arguments",
        "auto_delete",
        "durable",
        "gives_once",
        "had_bindings",
        "internal",
        "kind",
        "links",
        "needs_headers",
        "needs_key",
        "needs_properties",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, object] | None,
        needs_key: bool,
        needs_headers: bool,
        gives_once: bool,
    ) -> None:
        super().__init__(name)
        self.kind = kind
        self.durable = durable
        self.auto_delete = auto_delete
        self.internal = internal
        self.arguments: dict[str, object] = dict(arguments) if arguments else {}
        self.needs_key = needs_key
        self.needs_headers = needs_headers
        self.needs_properties = False
        self.gives_once = gives_once
        self.alternate: str | None = self._declared_alternate()
        self.had_bindings = False
        self.links: dict[Exchange, None] = {}
        self._bindings = Bindings()
        self._topology: Topology | None = None

    def attach(self, topology: Topology | None) -> None:
        """Report changes to `topology` from now on; None: to nobody. Called by the router only."""
        self._topology = topology

    def bind(
        self, destination: Destination, routing_key: str, arguments: Mapping[str, object] | None
    ) -> bool:
        """Bind; True if the binding is new, False if an equal one was there.

        Raises: ChannelFault if this kind of exchange refuses such a binding, also for one that
        exists, because RabbitMQ looks at the arguments first.
        """
        binding = Binding(destination, routing_key, arguments)
        self.check(binding)
        is_first = not self._bindings.is_bound(destination)
        if not self._bindings.add(binding):
            return False
        self.index(binding)
        self.had_bindings = True
        if is_first and isinstance(destination, Exchange):
            self.links[destination] = None
        if self._topology is not None:
            self._topology.binding_added(self, destination, is_first)
        return True

    def unbind(
        self, destination: Destination, routing_key: str, arguments: Mapping[str, object] | None
    ) -> bool:
        """Remove the equal binding; False if there is none, which is no fault in RabbitMQ.

        The caller looks at `is_due` afterwards: an auto-delete exchange may now have to go.
        """
        binding = Binding(destination, routing_key, arguments)
        if not self._bindings.remove(binding):
            return False
        self.unindex(binding)
        self._forget(destination, 1)
        return True

    def has_binding(
        self, destination: Destination, routing_key: str, arguments: Mapping[str, object] | None
    ) -> bool:
        """Whether an equal binding is there."""
        return self._bindings.has(Binding(destination, routing_key, arguments))

    def drop_destination(self, destination: Destination) -> int:
        """Remove all bindings to `destination`, which is going away; how many there were."""
        removed = self._bindings.remove_destination(destination)
        for binding in removed:
            self.unindex(binding)
        if removed:
            self._forget(destination, len(removed))
        return len(removed)

    def set_policy_alternate(self, name: str | None) -> None:
        """Use `name` as alternate exchange unless one was declared; None: no policy says one."""
        declared = self._declared_alternate()
        self.alternate = name if declared is None else declared
        if self._topology is not None:
            self._topology.alternate_changed(self)

    def match(
        self, routing_key: str, headers: Mapping[str, object] | None, found: list[Destination]
    ) -> None:
        """Append every destination whose binding matches; one may be appended more than once."""
        raise AssertionError(f"a {self.kind} exchange must say how it matches")

    def settle(self) -> None:
        """The match that it `asked` about is final; most ask nothing."""

    def check(self, binding: Binding) -> None:
        """Raise ChannelFault if this kind of exchange refuses `binding`; most take all."""

    def check_bounds(self, binding: Binding, bounds: BindingBounds) -> None:
        """Raise ChannelFault 406 if `binding` would make a match cost more than `bounds` allow;
        most exchanges look a binding up."""

    def index(self, binding: Binding) -> None:
        """Make `match` find `binding`, which was not indexed."""
        raise AssertionError(f"a {self.kind} exchange must say how it finds a binding")

    def unindex(self, binding: Binding) -> None:
        """Make `match` miss the binding equal to `binding`, which was indexed."""
        raise AssertionError(f"a {self.kind} exchange must say how it loses a binding")

    @property
    def binding_count(self) -> int:
        """Bindings that start here."""
        return self._bindings.count

    @property
    def is_unused(self) -> bool:
        """True if nothing is bound here (what exchange.delete with if-unused asks)."""
        return self._bindings.count == 0

    @property
    def is_due(self) -> bool:
        """True if auto-delete says it must go: it had bindings and lost the last one."""
        return self.auto_delete and self.had_bindings and self._bindings.count == 0

    def bindings(self) -> tuple[Binding, ...]:
        """Every binding that starts here, grouped by destination."""
        return self._bindings.listing()

    def bindings_to(self, destination: Destination) -> tuple[Binding, ...]:
        """The bindings from here to `destination`, oldest first."""
        return self._bindings.to_destination(destination)

    def destinations(self) -> tuple[Destination, ...]:
        """Every destination bound here, once."""
        return self._bindings.destinations()

    def _declared_alternate(self) -> str | None:
        declared = self.arguments.get(ALTERNATE_ARGUMENT)
        return declared if isinstance(declared, str) else None

    def _forget(self, destination: Destination, count: int) -> None:
        is_last = not self._bindings.is_bound(destination)
        if is_last and isinstance(destination, Exchange):
            del self.links[destination]
        if self._topology is not None:
            self._topology.bindings_removed(self, destination, count, is_last)


def words_of(key: str) -> list[str]:
    """The words of a routing key or pattern; none for the empty key."""
    return key.split(".") if key else []
