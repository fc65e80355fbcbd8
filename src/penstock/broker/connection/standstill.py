"""Lets a connection on that is stopped and has what others wait for: liveness, law 6. COMPILED.

A socket that is not read may hold the very acknowledgements that would let a queue drain. A
connection with unanswered deliveries that was stopped for a whole period lets its waiting publishes
through, one lane's window for each period and channel, and counts them. One that is held for debt
is read besides, up to the next publish that it brings.
"""

from typing import Final

from penstock.broker.connection.connection import Connection
from penstock.telemetry.events import ESCAPE

STANDSTILL_NS: Final = 100_000_000
"""How long a stopped connection with unanswered deliveries waits before it is let on."""


def break_standstill(connection: Connection, now_ns: int) -> None:
    """Once in a while: let `connection` on if it has stood still for STANDSTILL_NS."""
    gate = connection.gate
    if gate.is_open or connection.alarms or now_ns - gate.blocked_at_ns < STANDSTILL_NS:
        return
    channels = list(connection.channels.values())
    owing = [channel for channel in channels if channel.table.count > 0]
    if not owing:
        return
    on = connection.stop.by
    holder = "" if on is None else on[0]
    for channel in channels:
        if channel.identity == holder or (holder == "" and channel.is_stalled):
            channel.force_now()
            channel.wake()
    page = connection.account.let_on()
    if page != "":
        owing[0].escapes += 1
        connection.line.recorder.record(ESCAPE, connection.identity, page, "", 1)
