"""The binding set behaves as a set of (destination, key, arguments), whatever is done to it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.routing.bindings import Binding, Bindings
from penstock.routing.canonical import canonical, canonical_value, is_same_value
from penstock.routing.destination import Destination

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, 1.0, -1.0, float("nan"), 0.5]),
    st.text("ab:1", max_size=3),
    st.sampled_from([b"\xff", b"\xff\xfe"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text("ab", max_size=1), SCALARS, max_size=2)
OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "add", "remove", "drop"]),
        st.integers(0, 2),
        st.sampled_from(["", "k"]),
        ARGUMENTS,
    ),
    max_size=40,
)


def is_equal(left: object, right: object) -> bool:
    """The naive twin of equality: same type, same content, and NaN equals NaN."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(is_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(is_equal(left[k], right[k]) for k in left)
    return left == right


@given(VALUES, VALUES)
def test_texts_are_equal_exactly_for_equal_values(left: object, right: object) -> None:
    assert (canonical_value(left) == canonical_value(right)) == is_equal(left, right)
    assert is_same_value(left, right) == is_equal(left, right)
    assert is_same_value(left, left)


@given(st.dictionaries(st.text("abc", max_size=2), VALUES, max_size=5), st.randoms())
def test_the_order_of_a_table_does_not_matter(table: dict[str, object], chance: object) -> None:
    names = list(table)
    chance.shuffle(names)  # type: ignore[attr-defined]  # Hypothesis types it as object.
    assert canonical({name: table[name] for name in names}) == canonical(table)


@given(OPERATIONS)
def test_laws_of_a_set(operations: list[tuple[str, int, str, dict[str, object]]]) -> None:
    queues = [Destination(str(number)) for number in range(3)]
    bindings = Bindings()
    model: dict[tuple[Destination, str, str], dict[str, object]] = {}
    for verb, number, key, arguments in operations:
        queue = queues[number]
        place = (queue, key, canonical(arguments))
        binding = Binding(queue, key, arguments)
        if verb == "add":
            assert bindings.add(binding) == (place not in model)
            model.setdefault(place, arguments)
        elif verb == "remove":
            assert bindings.remove(binding) == (place in model)
            model.pop(place, None)
        else:
            gone = bindings.remove_destination(queue)
            expected = [place for place in model if place[0] is queue]
            assert [(b.destination, b.routing_key, b.identity) for b in gone] == expected
            for place in expected:
                del model[place]
        listing = bindings.listing()
        assert bindings.count == len(listing) == len(model)
        assert {(b.destination, b.routing_key, b.identity) for b in listing} == set(model)
        assert set(bindings.destinations()) == {place[0] for place in model}
        for queue in queues:
            assert bindings.is_bound(queue) == bool(bindings.to_destination(queue))
