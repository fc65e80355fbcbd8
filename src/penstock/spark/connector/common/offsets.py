"""What stands in a checkpoint: which queues or streams, and how far each has been read.

    {"queue": "orders", "position": 1200}      messages handed to Spark so far, counted by the query
    {"stream": "orders", "offset": 1200}       the next offset to be read
    {"lease": "orders", "number": 1200}        the number of the next leased message to be read
    {"queues": {"a": 1200, "b": 7}}            the same for several; "streams", "leases"

Beside these the end of the first batch of a stream may have, as "from", the offset that it begins
at, and any of streams, as "id" or "ids", which streams they are, where the broker says so.
Different shapes, so that a checkpoint of the one mode is not taken for one of the other.

A leased query that names no group is given a name once, which stands beside its offset as "group".
A checkpoint and its group belong together: the one says how far the query is in the numbers of the
other. A new checkpoint is a new group, which begins at 0; what the old one holds goes back to the
queue after leaseTimeout, so nothing is lost, and what was not committed is read again. Pure.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.base.errors import OperatorError

_KEYS = {
    "queue": ("queue", "position", "queues"),
    "lease": ("lease", "number", "leases"),
    "stream": ("stream", "offset", "streams"),
}


FROM: Final = "from"
GROUP: Final = "group"
MADE_UP: Final = "checkpoint-"
ID: Final = "id"
IDS: Final = "ids"
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
        raise OperatorError(_other_checkpoint(mode, names, offset, may_change))
    return [found.get(name, LACKING) for name in names]


def _other_checkpoint(
    mode: str, names: Sequence[str], offset: Mapping[str, Any], may_change: bool
) -> str:
    """What is wrong with a checkpoint at `offset` for a query over `names`, as of `read`."""
    ours = f"this query reads {_listed(names)} with mode={mode}"
    for kept, (one, count, several) in _KEYS.items():
        read = offset.get(several)
        if not isinstance(read, dict):
            read = {str(offset[one]): offset.get(count)} if one in offset else None
        if read is None:
            continue
        theirs = ", ".join(f"{name!r} to {count} {number}" for name, number in read.items())
        text = f"the checkpoint is of a query with mode={kept}, which has read {theirs}, and {ours}"
        # Of a pattern's queues some may have come or gone, and the other mode takes that.
        is_ours = set(read) == set(names) or (may_change and several in offset)
        if kept != mode and is_ours:
            return f"{text}. Go on with option mode={kept}, or begin with a new checkpointLocation"
        return f"{text}: a checkpoint belongs to its queues. Use another checkpointLocation"
    return (
        f"the checkpoint is at {dict(offset)}, which is none of this source, and {ours}: a "
        "checkpoint belongs to its queues. Use another checkpointLocation"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names)


def begun_at(end: Mapping[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """The end of a first batch, which begins at `start`."""
    return {**end, FROM: dict(start)}


def beginning_of(end: Mapping[str, Any], start: dict[str, Any]) -> dict[str, Any]:
    """Where the batch begins that ends at `end`: as it says itself, or at `start`."""
    begun = end.get(FROM)
    return begun if isinstance(begun, dict) else start


def identified(
    offset: Mapping[str, Any], names: Sequence[str], ids: Sequence[str]
) -> dict[str, Any]:
    """`offset` of the streams `names`, with what the broker calls them; "" where it does not."""
    known = {name: one for name, one in zip(names, ids, strict=True) if one}
    if not known:
        return dict(offset)
    if _KEYS["stream"][0] in offset:
        return {**offset, ID: known[names[0]]}
    return {**offset, IDS: dict(sorted(known.items()))}


def ids_in(offset: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """What the streams `names` were called when `offset` was written, "" where it does not say."""
    several = offset.get(IDS)
    found = several if isinstance(several, dict) else {names[0]: offset.get(ID)}
    return [str(found.get(name) or "") for name in names]


def make_up() -> str:
    """A name that no other query has."""
    return MADE_UP + uuid.uuid4().hex[:16]


def is_made_up(group: str) -> bool:
    """Whether that is such a name, so that the broker may forget it in time."""
    return group.startswith(MADE_UP)


def group_of(given: str, offset: Mapping[str, Any]) -> str:
    """The group of the query whose checkpoint has `offset`. given: its option, "" without one.

    Raises: OperatorError when the two do not belong together."""
    kept = offset.get(GROUP)
    if given and kept is None:
        return given
    if given:
        raise OperatorError(
            f"option group is {given!r}, and the checkpoint belongs to {kept!r}, which was made up "
            "for it: leave the option out, or use another checkpointLocation"
        )
    if not isinstance(kept, str) or not is_made_up(kept):
        raise OperatorError(
            "option group is missing: the checkpoint was made with one, which has to stay the same"
        )
    return kept
