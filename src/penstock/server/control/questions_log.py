"""What the control socket answers to {"op": "log"}: the newest lines of the broker's log.

`last` lines of `level` and above, or with `since` those from that number on, LINES_MAX at a time;
`next` is what to ask for `since` then.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from penstock.base.config import LOG_LEVELS
from penstock.base.errors import OperatorError
from penstock.base.printable import printable
from penstock.base.recent_lines import RecentLine, RecentLines
from penstock.broker.actors.cooperative import Steps
from penstock.server.control.request import Request

LINES_MAX: Final = 1000
"""Of one answer."""
LAST: Final = 50


def log_question(recent: RecentLines | None) -> Callable[[Request], Steps[dict[str, object]]]:
    """The question, asked of `recent`; None for a log that keeps nothing."""

    def look(request: Request) -> Steps[dict[str, object]]:
        if recent is None:
            raise OperatorError("this broker keeps no lines of its log")
        level = LOG_LEVELS.index(request.one_of("level", LOG_LEVELS))
        since = request.fields.get("since")
        if since is None:
            page = yield from recent.last(level, _count(request, "last", LAST, 1, LINES_MAX))
        else:
            start = _count(request, "since", 0, 0, 1 << 53)
            most = _count(request, "limit", LINES_MAX, 1, LINES_MAX)
            page = yield from recent.since(start, level, most)
        lines = [_row(line) for line in page.lines]
        return {"lines": lines, "next": page.next, "missed": page.missed}

    return look


def _count(request: Request, key: str, default: int, least: int, most: int) -> int:
    value = request.fields.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OperatorError(f"{key} = {value!r}: must be {least}..{most}")
    return value


def _row(line: RecentLine) -> dict[str, object]:
    at = datetime.fromtimestamp(line.wall_ms / 1000, UTC)
    return {
        "seq": line.seq,
        "time": f"{at:%Y-%m-%dT%H:%M:%S}.{line.wall_ms % 1000:03d}Z",
        "level": LOG_LEVELS[line.level],
        "event": line.kind,
        "message": printable(line.text),
    }
