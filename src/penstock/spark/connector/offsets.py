"""What stands in a checkpoint: which queue or stream, and how far it has been read.

    {"queue": "orders", "position": 1200}      messages handed to Spark so far, counted by the query
    {"stream": "orders", "offset": 1200}       the next offset to be read

Two shapes, so that a checkpoint of the one mode is not taken for one of the other.
"""

from collections.abc import Mapping

from penstock.base.errors import OperatorError

_KEYS = {"queue": ("queue", "position"), "stream": ("stream", "offset")}


def written(mode: str, name: str, number: int) -> dict[str, str | int]:
    """The offset as Spark keeps it. `mode`: queue or stream."""
    where, count = _KEYS[mode]
    return {where: name, count: number}


def read(mode: str, name: str, offset: Mapping[str, object]) -> int:
    """The number in a checkpoint's offset.

    Raises: OperatorError when it is another queue's, another mode's, or no offset of this source.
    """
    where, count = _KEYS[mode]
    number = offset.get(count)
    if offset.get(where) != name or not isinstance(number, int) or number < 0:
        raise OperatorError(
            f"the checkpoint is at {dict(offset)}, and this query reads the {where} {name!r}: a "
            "checkpoint belongs to one queue and one mode. Use another checkpointLocation"
        )
    return number
