"""What all exchanges share, shown on direct ones; and that every change is announced."""

import pytest

from penstock.base.errors import ChannelFault
from penstock.routing.bindings import Binding
from penstock.routing.default import DefaultExchange
from penstock.routing.destination import Destination
from penstock.routing.direct import DirectExchange
from penstock.routing.directory import QueueDirectory
from penstock.routing.exchange import Exchange, Topology
from penstock.routing.router import Router


def direct(name: str, auto_delete: bool = False, alternate: object = None) -> DirectExchange:
    arguments = {} if alternate is None else {"alternate-exchange": alternate}
    return DirectExchange(name, True, auto_delete, False, arguments)


def test_attributes() -> None:
    arguments: dict[str, object] = {"alternate-exchange": "spare", "note": 1}
    exchange = DirectExchange("x", True, False, True, arguments)
    assert (exchange.name, exchange.kind, exchange.alternate) == ("x", "direct", "spare")
    assert (exchange.durable, exchange.auto_delete, exchange.internal) == (True, False, True)
    arguments["note"] = 2
    assert exchange.arguments == {"alternate-exchange": "spare", "note": 1}


def test_binding_life() -> None:
    exchange, queue = direct("x"), Destination("q")
    assert exchange.is_unused
    assert exchange.bind(queue, "k", {"a": 1})
    assert not exchange.bind(queue, "k", {"a": 1})
    assert (exchange.binding_count, exchange.is_unused) == (1, False)
    assert [binding.routing_key for binding in exchange.bindings()] == ["k"]
    assert exchange.bindings_to(queue) == exchange.bindings()
    assert exchange.destinations() == (queue,)
    assert not exchange.unbind(queue, "k", None)
    assert exchange.unbind(queue, "k", {"a": 1})
    assert exchange.is_unused


def test_auto_delete_is_due_only_after_something_was_bound() -> None:
    exchange, queue = direct("x", auto_delete=True), Destination("q")
    assert not exchange.is_due
    exchange.bind(queue, "k", None)
    exchange.bind(queue, "l", None)
    exchange.unbind(queue, "k", None)
    assert not exchange.is_due
    exchange.unbind(queue, "l", None)
    assert exchange.is_due
    exchange.bind(queue, "k", None)
    assert not exchange.is_due
    assert exchange.drop_destination(queue) == 1
    assert exchange.drop_destination(queue) == 0
    assert exchange.is_due


def test_without_auto_delete_it_is_never_due() -> None:
    exchange, queue = direct("x"), Destination("q")
    exchange.bind(queue, "k", None)
    exchange.unbind(queue, "k", None)
    assert exchange.had_bindings
    assert not exchange.is_due


def test_links_are_the_bound_exchanges() -> None:
    exchange, other = direct("x"), direct("y")
    exchange.bind(Destination("q"), "k", None)
    assert not exchange.links
    exchange.bind(other, "k", None)
    exchange.bind(other, "l", None)
    assert list(exchange.links) == [other]
    exchange.unbind(other, "k", None)
    assert list(exchange.links) == [other]
    exchange.drop_destination(other)
    assert not exchange.links


def test_a_declared_alternate_wins_over_a_policy() -> None:
    free, declared = direct("x"), direct("y", alternate="spare")
    free.set_policy_alternate("policy")
    declared.set_policy_alternate("policy")
    assert (free.alternate, declared.alternate) == ("policy", "spare")
    free.set_policy_alternate(None)
    declared.set_policy_alternate(None)
    assert (free.alternate, declared.alternate) == (None, "spare")
    assert direct("z", alternate=7).alternate is None


def test_every_change_moves_the_epoch_and_nothing_else_does() -> None:
    router = Router(QueueDirectory())
    exchange, queue = direct("x"), Destination("q")
    router.add_exchange(exchange)
    epochs = [router.epoch]

    def moved() -> bool:
        epochs.append(router.epoch)
        return epochs[-1] > epochs[-2]

    exchange.bind(queue, "k", None)
    assert moved()
    exchange.bind(queue, "k", None)
    assert not moved()
    exchange.unbind(queue, "other", None)
    assert not moved()
    exchange.set_policy_alternate("spare")
    assert moved()
    exchange.drop_destination(Destination("q"))
    assert not moved()
    exchange.drop_destination(queue)
    assert moved()
    exchange.bind(queue, "k", None)
    assert moved()
    exchange.unbind(queue, "k", None)
    assert moved()
    router.remove_exchange(exchange)
    assert moved()
    exchange.bind(queue, "k", None)
    assert not moved()


def test_a_base_class_used_bare_says_what_is_missing() -> None:
    topology = Topology()
    bare = Exchange("odd", "x", False, False, False, None, True, False, False)
    binding = Binding(Destination("q"), "k", None)
    bare.check(binding)
    with pytest.raises(AssertionError, match="odd exchange"):
        bare.match("k", None, [])
    with pytest.raises(AssertionError, match="odd exchange"):
        bare.index(binding)
    with pytest.raises(AssertionError, match="odd exchange"):
        bare.unindex(binding)
    with pytest.raises(AssertionError):
        topology.binding_added(bare, binding.destination, True)
    with pytest.raises(AssertionError):
        topology.bindings_removed(bare, binding.destination, 1, True)
    with pytest.raises(AssertionError):
        topology.alternate_changed(bare)
    with pytest.raises(AssertionError):
        topology.queues_changed()


def match(exchange: DirectExchange, key: str) -> list[Destination]:
    found: list[Destination] = []
    exchange.match(key, None, found)
    return found


def test_exactly_the_key_matches() -> None:
    exchange = DirectExchange("x", False, False, False, None)
    first, second = Destination("1"), Destination("2")
    exchange.bind(first, "a.b", None)
    exchange.bind(second, "a.b", None)
    exchange.bind(second, "", None)
    exchange.bind(second, "#", None)
    assert match(exchange, "a.b") == [first, second]
    assert match(exchange, "") == [second]
    assert match(exchange, "a") == []
    assert (exchange.needs_key, exchange.needs_headers) == (True, False)


def test_bindings_that_differ_in_arguments_alone_give_one_delivery() -> None:
    exchange, queue = DirectExchange("x", False, False, False, None), Destination("q")
    assert exchange.bind(queue, "k", None)
    assert exchange.bind(queue, "k", {"note": "again"})
    assert match(exchange, "k") == [queue]
    assert exchange.unbind(queue, "k", None)
    assert match(exchange, "k") == [queue]
    assert exchange.unbind(queue, "k", {"note": "again"})
    assert match(exchange, "k") == []


def test_the_key_is_the_name_of_the_queue() -> None:
    directory, queue = QueueDirectory(), Destination("q")
    directory.add(queue)
    exchange = DefaultExchange(directory)
    found: list[Destination] = []
    exchange.match("other", None, found)
    assert found == []
    exchange.match("q", None, found)
    assert found == [queue]
    assert (exchange.name, exchange.kind, exchange.durable) == ("", "direct", True)


def test_nothing_can_be_bound() -> None:
    exchange = DefaultExchange(QueueDirectory())
    with pytest.raises(ChannelFault) as refusal:
        exchange.bind(Destination("q"), "k", None)
    assert refusal.value.code == 403
    assert refusal.value.text == "operation not permitted on the default exchange"
    assert not exchange.unbind(Destination("q"), "k", None)
