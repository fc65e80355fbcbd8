"""The group of a leased query that names none: made up once, and kept in its checkpoint. Pure.

A checkpoint and its group belong together: the one says how far the query is in the numbers of the
other. So the name stands in the offsets, which Spark writes down, and there is no second place for
it. A new checkpoint is a new group, which begins at 0; what the old one holds goes back to the
queue after leaseTimeout, so nothing is lost, and what was not committed is read again.
"""

import uuid
from collections.abc import Mapping
from typing import Any, Final

from penstock.base.errors import OperatorError

KEY: Final = "group"
PREFIX: Final = "checkpoint-"


def make_up() -> str:
    """A name that no other query has."""
    return PREFIX + uuid.uuid4().hex[:16]


def is_made_up(group: str) -> bool:
    """Whether that is such a name, so that the broker may forget it in time."""
    return group.startswith(PREFIX)


def with_group(offset: Mapping[str, Any], group: str) -> dict[str, Any]:
    """`offset` with the name."""
    return {**offset, KEY: group}


def group_of(given: str, offset: Mapping[str, Any]) -> str:
    """The group of the query whose checkpoint has `offset`. given: its option, "" without one.

    Raises: OperatorError when the two do not belong together."""
    kept = offset.get(KEY)
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
