"""Which queues a query reads: the options queue, queues and queuePattern."""

import re

from penstock.base.errors import OperatorError
from penstock.base.limits import CONNECTOR_QUEUES
from penstock.spark.connector.common.option_values import Values


def parse_queues(values: Values, found: tuple[str, ...]) -> tuple[str, ...]:
    """Their names, 1 or more. found: what queuePattern matches; without them the pattern stands for
    a queue.

    Raises: OperatorError for none, too many, names that are none, and a pattern that is none.
    """
    given = [name for name in ("queue", "queues", "queuePattern") if values.has(name)]
    if len(given) > 1:
        raise OperatorError(f"options {' and '.join(given)}: give one of them")
    if values.has("queuePattern"):
        _check_pattern(values.text("queuePattern"))
        queues = found or (values.text("queuePattern"),)
    elif values.has("queues"):
        queues = tuple(name.strip() for name in values.text("queues").split(","))
    else:
        queues = (values.text("queue"),)
    if not all(queues):
        raise OperatorError(
            "option queue is missing: the name of the queue or stream to read; or queues, several "
            "names separated by commas, none of them empty; or queuePattern"
        )
    if len(set(queues)) < len(queues):
        raise OperatorError(f"option queues names a queue twice: {', '.join(queues)}")
    if len(queues) > CONNECTOR_QUEUES.default:
        raise OperatorError(
            f"option {'queuePattern matches' if found else 'queues names'} {len(queues)} queues, "
            f"and a query reads {CONNECTOR_QUEUES.default} at most; divide them among several "
            "queries"
        )
    for name in queues:
        if not found and len(name.encode()) > 255:
            raise OperatorError("option queue is longer than the 255 bytes a name may have")
    return queues


def matching(pattern: str, names: list[str]) -> tuple[str, ...]:
    """Those that `pattern` matches as a whole, in order."""
    return tuple(sorted(name for name in names if re.fullmatch(pattern, name)))


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise OperatorError(
            f"option queuePattern is {pattern!r}, which is no regular expression: {error}"
        ) from error
