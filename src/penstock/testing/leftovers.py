"""What a failed test shows of its broker: what is left in queues, who is held, and the log."""

from typing import Any, Final

from penstock.base.errors import OperatorError
from penstock.testing.vhost import Ask, Queue, bare_name, queue_line

ROWS: Final = 20
LOG_LINES: Final = 20
THROTTLED: Final = 3
"""Exit status of `penstock why` when somebody is held."""


def explanation(ask: Ask, kind: str, name: str, window_s: float) -> dict[str, Any]:
    """The answer of `penstock why`, of a look at the broker that is taken now."""
    ask("record", do="round")
    return ask("why", kind=kind, name=name, window_s=window_s)


def leftovers(ask: Ask, vhost: str, log: str, window_s: float) -> str:
    """Lines for people. vhost: "" for all. Never raises: it must not hide why the test failed."""
    try:
        lines = [*_queues(ask, vhost), *_held(ask, vhost, window_s), *_alarms(ask)]
    except OperatorError as error:
        lines = [f"the broker cannot be asked: {error}"]
    said = log.splitlines()[-LOG_LINES:]
    if said:
        lines += ["log of the broker:", *(f"  {line}" for line in said)]
    return "\n".join(lines)


def _queues(ask: Ask, vhost: str) -> list[str]:
    answer = ask("queues", do="list", vhost=vhost, sort="ready", limit=10_000)
    rows = [row for row in answer["queues"] if _is_left(row)]
    where = f"virtual host '{vhost}'" if vhost else "all virtual hosts"
    if not rows:
        return [f"all {answer['total']} queues of {where} are empty"]
    lines = [f"of {answer['total']} queues of {where} {len(rows)} hold messages or are stopped:"]
    for row in rows[:ROWS]:
        # Of one virtual host the names that the test itself has given.
        name = bare_name(row) if vhost else str(row["name"])
        ready, unacknowledged = row["messages_ready"], row["messages_unacknowledged"]
        queue = Queue(name, ready, unacknowledged, row["consumers"], row["state"])
        lines.append(f"  {queue_line(queue)}")
    return lines + ([f"  and {len(rows) - ROWS} more"] if len(rows) > ROWS else [])


def _is_left(row: dict[str, Any]) -> bool:
    held = row["messages_ready"] + row["messages_unacknowledged"]
    return bool(held) or row["state"] != "running"


def _held(ask: Ask, vhost: str, window_s: float) -> list[str]:
    """Hops whose sender waits at this moment, and why the one who waited longest did."""
    answer = ask("flow", do="edges", vhost=vhost, blocked=True, sort="blocked", limit=ROWS)
    lines = [
        f"  {row['sender']} waits for {row['by'] or row['receiver']} ({row['reason']}), "
        f"for {row['blocked_for_ns'] / 1e9:.1f} s"
        for row in answer["edges"]
    ]
    if lines:
        lines.insert(0, f"held now, of {answer['total']} hops {answer['matching']}:")
    why = explanation(ask, "publish", "", window_s)
    if why["exit_status"] == THROTTLED:
        lines += ["why the publisher that waited most did:", *_indented(str(why["text"]))]
    return lines


def _alarms(ask: Ask) -> list[str]:
    return [
        f"{row['resource']} alarm, for {row['set_for_ns'] / 1e9:.1f} s; stopped: "
        f"{', '.join(row['stopped']) or 'no connection'}"
        for row in ask("flow", do="alarms")["alarms"]
        if row["is_set"]
    ]


def _indented(text: str) -> list[str]:
    return [f"  {line}".rstrip() for line in text.splitlines() if line.strip()]
