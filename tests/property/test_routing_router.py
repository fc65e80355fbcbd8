"""Routing agrees with a naive walk of the exchange graph; the books agree; no change is silent.

The world begins with five exchanges of any kinds and three queues. A history declares, deletes,
binds, unbinds and sets alternates; after each step every route is compared with the naive one.
"""

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.routing.destination import Destination
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.router import Router

# The kinds that say where a message goes without a draw.
KINDS = ["direct", "fanout", "headers", "topic"]
NAMES = ["A", "B", "C", "D", "E"]
QUEUES = ["1", "2", "3"]
KEYS = ["", "k", "1"]
HEADERS: list[dict[str, object] | None] = [None, {"h": 1}]

exchange_names = st.sampled_from(NAMES)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("declare"), exchange_names, st.sampled_from(KINDS), st.booleans()),
        st.tuples(
            st.sampled_from(["bind", "bind", "bind", "unbind"]),
            exchange_names,
            st.sampled_from(NAMES + QUEUES),
            st.sampled_from(["", "k", "#", "1"]),
        ),
        st.tuples(
            st.just("alternate"),
            exchange_names,
            st.none() | st.sampled_from([*NAMES, ""]),
            st.just(None),
        ),
        st.tuples(st.just("delete"), exchange_names, st.just(None), st.just(None)),
        st.tuples(
            st.sampled_from(["add queue", "add queue", "delete queue"]),
            st.sampled_from(QUEUES),
            st.just(None),
            st.just(None),
        ),
    ),
    min_size=10,
    max_size=40,
)
BEGINNINGS = st.tuples(*[st.sampled_from(KINDS)] * len(NAMES))
Edge = tuple[str, str, str]  # source, destination, routing key
Routes = dict[tuple[str, tuple[str, ...], bool], list[str]]


class Twin:
    """The same world as plain sets of names."""

    def __init__(self) -> None:
        self.kinds: dict[str, str] = {"": "default"}
        self.automatic: set[str] = set()
        self.alternates: dict[str, str] = {}
        self.edges: set[Edge] = set()
        self.queues: set[str] = set()

    def reached(self, source: str, keys: tuple[str, ...], has_header: bool) -> set[str]:
        kind = self.kinds[source]
        if kind == "default":
            return self.queues & set(keys)
        found = set()
        for start, end, key in self.edges:
            if start != source:
                continue
            is_hit = {
                "direct": key in keys,
                "fanout": True,
                "headers": has_header,
                "topic": key == "#" or key in keys,
            }[kind]
            if is_hit:
                found.add(end)
        return found

    def route(self, origin: str, keys: tuple[str, ...], has_header: bool) -> set[str]:
        seen: set[str] = set()
        todo, queues = {origin}, set()
        while todo:
            source = todo.pop()
            seen.add(source)
            ends = self.reached(source, keys, has_header)
            if not ends and self.alternates.get(source) in self.kinds:
                ends = {self.alternates[source]}
            queues |= ends & self.queues
            todo |= {end for end in ends if end in self.kinds} - seen
        return queues

    def reaches_headers(self, origin: str) -> bool:
        """Whether a headers exchange can be reached over any binding or alternate."""
        reached, size = {origin}, 0
        while len(reached) > size:
            size = len(reached)
            reached |= {end for start, end, _ in self.edges if start in reached}
            reached |= {self.alternates[name] for name in reached if name in self.alternates}
            reached &= set(self.kinds)
        return any(self.kinds[name] == "headers" for name in reached)

    def lose_edges(self, gone: set[Edge]) -> None:
        """Remove edges, and automatic exchanges that lose their last one by it."""
        self.edges -= gone
        for source in {edge[0] for edge in gone}:
            is_left = any(edge[0] == source for edge in self.edges)
            if source in self.automatic and not is_left:
                self.delete(source)

    def delete(self, name: str) -> None:
        if name in self.kinds:
            del self.kinds[name]
            self.automatic.discard(name)
            self.alternates.pop(name, None)
            self.edges = {edge for edge in self.edges if edge[0] != name}
            self.lose_edges({edge for edge in self.edges if edge[1] == name})


class World:
    """The router and its twin, driven by the same steps."""

    def __init__(self) -> None:
        self.directory = QueueDirectory()
        self.router = Router(self.directory)
        self.twin = Twin()

    def step(self, verb: str, name: str, detail: str | None, extra: object) -> None:
        exchange = self.router.find(name)
        if verb == "declare":
            if exchange is None and detail is not None:
                self.declare(name, detail, bool(extra))
        elif verb == "add queue":
            if name not in self.twin.queues:
                self.directory.add(Destination(name))
                self.twin.queues.add(name)
        elif verb == "delete queue":
            queue = self.directory.find_queue(name)
            if queue is not None:
                self.directory.remove(queue)
                self.router.drop_destination(queue)
                self.twin.queues.discard(name)
                self.twin.lose_edges({edge for edge in self.twin.edges if edge[1] == name})
        elif exchange is not None:
            if verb == "delete":
                self.router.remove_exchange(exchange)
                self.twin.delete(name)
            elif verb == "alternate":
                exchange.set_policy_alternate(detail)
                self.twin.alternates.pop(name, None)
                if detail is not None:
                    self.twin.alternates[name] = detail
            else:
                assert detail is not None
                self.tie(verb, exchange, detail, str(extra))

    def declare(self, name: str, kind: str, auto_delete: bool) -> None:
        self.router.add_exchange(make_exchange(kind, name, auto_delete=auto_delete))
        self.twin.kinds[name] = kind
        if auto_delete:
            self.twin.automatic.add(name)

    def tie(self, verb: str, exchange: Exchange, end: str, key: str) -> None:
        destination = self.router.find(end) or self.directory.find_queue(end)
        if destination is None:
            return
        edge = (exchange.name, end, key)
        if verb == "bind":
            assert exchange.bind(destination, key, {"h": 1}) == (edge not in self.twin.edges)
            self.twin.edges.add(edge)
        else:
            assert exchange.unbind(destination, key, {"h": 1}) == (edge in self.twin.edges)
            if exchange.is_due:
                self.router.remove_exchange(exchange)
            self.twin.lose_edges({edge} & self.twin.edges)

    def routes(self) -> Routes:
        """Every route there is; checked against the twin and against needs_headers."""
        found: Routes = {}
        for exchange in self.router.exchanges():
            for keys in [(key,) for key in KEYS] + [("1", "k", "1")]:
                for headers in HEADERS:
                    queues = self.router.route(exchange, keys, headers)
                    assert len(set(queues)) == len(queues)
                    names = [queue.name for queue in queues]
                    has_header = headers is not None
                    assert set(names) == self.twin.route(exchange.name, keys, has_header)
                    found[exchange.name, keys, has_header] = names
                if self.router.needs_headers(exchange):
                    assert self.twin.reaches_headers(exchange.name)
                else:
                    assert not self.twin.reaches_headers(exchange.name)
                    assert found[exchange.name, keys, False] == found[exchange.name, keys, True]
        return found

    def check_books(self) -> None:
        exchanges = self.router.exchanges()
        assert {exchange.name for exchange in exchanges} == set(self.twin.kinds)
        listed = [
            (exchange.name, binding.destination.name, binding.routing_key)
            for exchange in exchanges
            for binding in exchange.bindings()
        ]
        assert len(listed) == self.router.binding_count == self.router.snapshot().binding_count
        assert set(listed) == self.twin.edges and len(listed) == len(self.twin.edges)
        backwards = [
            (source.name, destination.name, binding.routing_key)
            for destination in [*exchanges, *self.directory.queues()]
            for source, binding in self.router.bindings_to(destination)
        ]
        assert sorted(backwards) == sorted(listed)
        ends = {edge[1] for edge in listed}
        assert self.router.snapshot().destination_count == len(ends)


@settings(max_examples=80)
@given(BEGINNINGS, STEPS)
def test_any_history(
    kinds: tuple[str, ...], steps: list[tuple[str, str, str | None, object]]
) -> None:
    world = World()
    for name, kind in zip(NAMES, kinds, strict=True):
        world.declare(name, kind, auto_delete=name in "AB")
    for name in QUEUES:
        world.step("add queue", name, None, None)
    routes, epoch = world.routes(), world.router.epoch
    for verb, name, detail, extra in steps:
        world.step(verb, name, detail, extra)
        world.check_books()
        now = world.routes()
        assert world.router.epoch >= epoch
        if now != routes:
            assert world.router.epoch > epoch, f"{verb} {name} changed a route in silence"
        assert world.routes() == now, "the same route twice must be the same"
        routes, epoch = now, world.router.epoch
    assert world.router.visits_refused == 0
