"""What stands in a checkpoint comes back, and belongs to one queue and one mode."""

import json

import pytest

from penstock.base.errors import OperatorError
from penstock.spark.connector import offsets


@pytest.mark.parametrize("mode", ["queue", "stream"])
def test_an_offset_survives_the_checkpoint(mode: str) -> None:
    text = json.dumps(offsets.written(mode, "orders", 2**40))
    assert offsets.read(mode, "orders", json.loads(text)) == 2**40


@pytest.mark.parametrize(
    ("mode", "name", "offset"),
    [
        ("queue", "orders", {"queue": "other", "position": 3}),
        ("stream", "orders", {"queue": "orders", "position": 3}),
        ("queue", "orders", {"queue": "orders", "position": -1}),
        ("queue", "orders", {"topic": {"0": 7}}),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    mode: str, name: str, offset: dict[str, object]
) -> None:
    with pytest.raises(OperatorError, match="checkpoint belongs to one queue"):
        offsets.read(mode, name, offset)
