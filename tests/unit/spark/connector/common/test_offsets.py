"""What stands in a checkpoint comes back, and belongs to its queues and one mode."""

import json

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector.common import offsets


@pytest.mark.parametrize("mode", ["queue", "stream"])
@pytest.mark.parametrize(
    ("names", "numbers"), [(["orders"], [2**40]), (["b", "a", "c"], [3, 0, 2**40])]
)
def test_an_offset_survives_the_checkpoint(mode: str, names: list[str], numbers: list[int]) -> None:
    text = json.dumps(offsets.written(mode, names, numbers))
    assert offsets.read(mode, names, json.loads(text)) == numbers


def test_the_order_of_names_in_an_option_makes_no_new_offset() -> None:
    """Spark would see a batch where there is none."""
    one = offsets.written("queue", ["b", "a"], [1, 2])
    assert json.dumps(one) == json.dumps(offsets.written("queue", ["a", "b"], [2, 1]))
    assert json.dumps(one) == '{"queues": {"a": 2, "b": 1}}'


def test_the_queues_of_a_pattern_may_come_and_go() -> None:
    one = offsets.written("stream", ["a"], [5], may_change=True)
    assert one == {"streams": {"a": 5}}
    assert offsets.read("stream", ["a", "b"], one, may_change=True) == [5, offsets.LACKING]
    assert offsets.read("stream", ["b"], one, may_change=True) == [offsets.LACKING]
    with pytest.raises(OperatorError, match="mode=stream, which has read 'a' to offset 5"):
        offsets.read("queue", ["a"], one, may_change=True)


@pytest.mark.parametrize(
    ("mode", "names", "offset"),
    [
        ("queue", ["orders"], {"queue": "other", "position": 3}),
        ("queue", ["orders"], {"queue": "orders", "position": -1}),
        ("queue", ["orders"], {"topic": {"0": 7}}),
        ("queue", ["orders"], {"queue": {"orders": 1}, "position": 7}),
        ("queue", ["orders"], {"queues": {"orders": 1, "more": 2}}),
        ("queue", ["orders", "more"], {"queue": "orders", "position": 3}),
        ("queue", ["orders", "more"], {"queues": {"orders": 1, "other": 2}}),
        ("queue", ["orders", "more"], {"queues": {"orders": 1, "more": "2"}}),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    mode: str, names: list[str], offset: dict[str, object]
) -> None:
    with pytest.raises(OperatorError, match="checkpoint belongs to its queues"):
        offsets.read(mode, names, offset)


def test_a_checkpoint_of_another_mode_says_what_it_is() -> None:
    """And how to go on with it."""
    with pytest.raises(OperatorError) as raised:
        offsets.read("lease", ["orders"], {"queue": "orders", "position": 3})
    assert str(raised.value) == (
        "the checkpoint is of a query with mode=queue, which has read 'orders' to position 3, and "
        "this query reads 'orders' with mode=lease. Go on with option mode=queue, or begin with a "
        "new checkpointLocation"
    )
    with pytest.raises(OperatorError, match="Go on with option mode=queue"):
        offsets.read("lease", ["a", "new"], {"queues": {"a": 1, "old": 2}}, may_change=True)
    with pytest.raises(OperatorError, match="belongs to its queues"):
        offsets.read("lease", ["a", "new"], {"queues": {"a": 1, "old": 2}})
    with pytest.raises(OperatorError, match=r"mode=stream, which has read 'a' to offset 1, 'b' to"):
        offsets.read("queue", ["a", "b"], {"streams": {"a": 1, "b": 2}})


def test_the_end_of_a_first_batch_says_where_it_begins() -> None:
    start, end = (offsets.written("stream", ["s"], [number]) for number in (5, 9))
    first = json.loads(json.dumps(offsets.begun_at(end, start)))
    assert offsets.read("stream", ["s"], first) == [9]
    assert offsets.FROM in first and offsets.FROM not in end
    later = offsets.written("stream", ["s"], [7])
    assert offsets.beginning_of(first, later) == start
    assert offsets.beginning_of(end, later) == later


# --- groups that were made up --------------------------------------------------------------

LEASED = {"lease": "orders", "number": 4}


def test_names_are_made_up_once_and_known_as_such() -> None:
    assert offsets.make_up() != offsets.make_up()
    assert offsets.is_made_up(offsets.make_up()) and not offsets.is_made_up("orders")


def test_what_an_offset_says_is_the_group() -> None:
    name = offsets.make_up()
    assert offsets.group_of("", {**LEASED, offsets.GROUP: name}) == name
    assert offsets.group_of("etl", LEASED) == "etl"


@pytest.mark.parametrize(
    ("given", "kept", "words"),
    [
        ("etl", "checkpoint-1", "leave the option out"),
        ("", None, "was made with one"),
        ("", "etl", "was made with one"),
    ],
)
def test_an_option_and_a_checkpoint_that_do_not_belong_together_are_refused(
    given: str, kept: str | None, words: str
) -> None:
    offset = LEASED if kept is None else {**LEASED, offsets.GROUP: kept}
    with pytest.raises(OperatorError, match=words):
        offsets.group_of(given, offset)
