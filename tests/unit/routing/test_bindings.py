"""The set of bindings of one exchange."""

from penstock.routing.bindings import Binding, Bindings
from penstock.routing.destination import Destination


def test_equal_arguments_make_the_same_binding_in_any_order() -> None:
    bindings, queue = Bindings(), Destination("q")
    assert bindings.add(Binding(queue, "k", {"a": 1, "b": "x"}))
    assert not bindings.add(Binding(queue, "k", {"b": "x", "a": 1}))
    assert bindings.add(Binding(queue, "k", {"b": "x", "a": True}))
    assert bindings.add(Binding(queue, "k", None))
    assert not bindings.add(Binding(queue, "k", {}))
    assert bindings.count == 3


def test_a_queue_of_the_same_name_is_another_destination() -> None:
    bindings = Bindings()
    assert bindings.add(Binding(Destination("q"), "k", None))
    assert bindings.add(Binding(Destination("q"), "k", None))


def test_a_binding_keeps_its_own_copy_of_the_arguments() -> None:
    arguments: dict[str, object] = {"a": 1}
    binding = Binding(Destination("q"), "k", arguments)
    arguments["a"] = 2
    assert binding.arguments == {"a": 1}


def test_removing_what_is_not_there_changes_nothing() -> None:
    bindings, queue = Bindings(), Destination("q")
    assert not bindings.remove(Binding(queue, "k", None))
    bindings.add(Binding(queue, "k", None))
    assert not bindings.remove(Binding(queue, "other", None))
    assert bindings.remove_destination(Destination("q")) == []
    assert bindings.count == 1


def test_losing_a_destination_returns_its_bindings_only() -> None:
    bindings, queue, other = Bindings(), Destination("q"), Destination("other")
    lost = [Binding(queue, "1", None), Binding(queue, "2", None)]
    kept = Binding(other, "1", None)
    for binding in [lost[0], kept, lost[1]]:
        bindings.add(binding)
    assert bindings.to_destination(queue) == tuple(lost)
    assert bindings.remove_destination(queue) == lost
    assert not bindings.is_bound(queue)
    assert bindings.to_destination(queue) == ()
    assert bindings.destinations() == (other,)
    assert bindings.listing() == (kept,)
