"""Headers exchanges agree with a naive reading of the four match modes."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.routing.destination import Destination
from penstock.routing.headers import HeadersExchange

NAMES = st.sampled_from(["a", "b", "x-c", "x-d", "x-", "x"])
VALUES = st.sampled_from([None, True, False, 0, 1, 1.0, "1", "", [1], {"a": 1}])
MODES = st.sampled_from([None, "all", "any", "all-with-x", "any-with-x"])
HEADERS = st.dictionaries(NAMES | st.just("x-match"), VALUES, max_size=5)


def is_same(left: object, right: object) -> bool:
    return type(left) is type(right) and left == right


def is_match(mode: str | None, arguments: dict[str, object], headers: dict[str, object]) -> bool:
    """The naive twin."""
    mode = mode or "all"
    looked_at = {
        name: value
        for name, value in arguments.items()
        if mode.endswith("-with-x") or not name.startswith("x-")
    }
    answers = [
        name in headers and (value is None or is_same(value, headers[name]))
        for name, value in looked_at.items()
    ]
    return all(answers) if mode.startswith("all") else any(answers)


@given(
    st.lists(st.tuples(MODES, st.dictionaries(NAMES, VALUES, max_size=4)), max_size=5),
    st.none() | HEADERS,
)
def test_agrees_with_the_naive_twin(
    rules: list[tuple[str | None, dict[str, object]]], headers: dict[str, object] | None
) -> None:
    exchange = HeadersExchange("x", False, False, False, None)
    expected: list[Destination] = []
    for number, (mode, arguments) in enumerate(rules):
        queue = Destination(str(number))
        exchange.bind(queue, "", arguments if mode is None else {"x-match": mode, **arguments})
        if is_match(mode, arguments, headers or {}):
            expected.append(queue)
    found: list[Destination] = []
    exchange.match("", headers, found)
    assert found == expected
