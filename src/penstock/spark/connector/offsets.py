"""What stands in a checkpoint: which queues or streams, and how far each has been read.

    {"queue": "orders", "position": 1200}      messages handed to Spark so far, counted by the query
    {"stream": "orders", "offset": 1200}       the next offset to be read
    {"lease": "orders", "number": 1200}        the number of the next leased message to be read
    {"queues": {"a": 1200, "b": 7}}            the same for several; "streams", "leases"

Different shapes, so that a checkpoint of the one mode is not taken for one of the other.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.base.errors import OperatorError

_KEYS = {
    "queue": ("queue", "position", "queues"),
    "lease": ("lease", "number", "leases"),
    "stream": ("stream", "offset", "streams"),
}


LACKING: Final = -1
"""For a queue that the checkpoint does not know yet."""


def written(
    mode: str, names: Sequence[str], numbers: Sequence[int], may_change: bool = False
) -> dict[str, Any]:
    """The offset as Spark keeps it. `mode`: queue, lease or stream; may_change: there may be other
    queues the next time, so that a single one is written as several are.

    Spark compares offsets as texts, so several come in the order of their names.
    """
    one, count, several = _KEYS[mode]
    if len(names) == 1 and not may_change:
        return {one: names[0], count: numbers[0]}
    return {several: dict(sorted(zip(names, numbers, strict=True)))}


def read(
    mode: str, names: Sequence[str], offset: Mapping[str, Any], may_change: bool = False
) -> list[int]:
    """The numbers in a checkpoint's offset, in the order of `names`. may_change: there may have
    been other queues; those that are new are LACKING, those that are gone are forgotten.

    Raises: OperatorError when it is of other queues, another mode, or no offset of this source.
    """
    one, count, several = _KEYS[mode]
    is_several = len(names) > 1 or may_change
    found = offset.get(several) if is_several else {str(offset.get(one)): offset.get(count)}
    if (
        not isinstance(found, dict)
        or (set(found) != set(names) and not may_change)
        or not all(isinstance(number, int) and number >= 0 for number in found.values())
    ):
        what = f"{one} {names[0]!r}" if len(names) == 1 else f"{several} {', '.join(names)}"
        raise OperatorError(
            f"the checkpoint is at {dict(offset)}, and this query reads the {what}: a "
            "checkpoint belongs to its queues and to one mode. Use another checkpointLocation"
        )
    return [found.get(name, LACKING) for name in names]
