"""A group that is made up stands in the checkpoint, and belongs to it."""

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector.common.offsets import group_of, is_made_up, make_up, with_group

OFFSET = {"lease": "orders", "number": 4}


def test_names_are_made_up_once_and_known_as_such() -> None:
    assert make_up() != make_up()
    assert is_made_up(make_up()) and not is_made_up("orders")


def test_what_an_offset_says_is_the_group() -> None:
    name = make_up()
    assert with_group(OFFSET, name) == {"lease": "orders", "number": 4, "group": name}
    assert group_of("", with_group(OFFSET, name)) == name
    assert group_of("etl", OFFSET) == "etl"


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
    offset = OFFSET if kept is None else with_group(OFFSET, kept)
    with pytest.raises(OperatorError, match=words):
        group_of(given, offset)
