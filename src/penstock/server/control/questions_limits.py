"""What the control socket answers about limits of virtual hosts and users.

One request is {"op": "limits", "do": "list" | "set" | "clear", "kind": "vhost" | "user", ...}.
Beside a `name`, `set` carries `limits`, an object, and `clear` carries `keys`, none for all.
"""

from collections.abc import Mapping
from typing import Final

from penstock.base.errors import OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import LimitListing, LimitRow, LimitsOf
from penstock.broker.admin.paging import Key
from penstock.broker.session.entry_limits import CHANNELS, CONNECTIONS, QUEUES, USER, VHOST
from penstock.server.control.request import Keyed, Request
from penstock.telemetry.events import SETTING_CHANGED

STEP_ROWS: Final = 64
"""Channels of a user are counted connection by connection."""


def listing(request: Request) -> Steps[Keyed]:
    """A LimitListing, vhosts and users with a limit; `used` holds what there is now, by the same
    keys. In steps."""
    limits = request.broker.limits
    pager = request.pager()
    shared = 0
    for count, one in enumerate(limits.rows(), 1):
        shared += one.kind == USER
        pager.offer((int(one.kind != VHOST), one.name), one)
        if count % STEP_ROWS == 0:
            yield 0.0
    rows: list[LimitRow] = []
    keys: list[Key] = []
    for key, row in pager.placed():
        if row.kind == VHOST and row.name not in request.broker.vhosts:
            continue
        if len(rows) % STEP_ROWS == STEP_ROWS - 1:
            yield 0.0
        used = {CONNECTIONS: limits.connections_of(row.kind, row.name)}
        if row.kind == VHOST:
            used[QUEUES] = request.broker.vhosts[row.name].counted_queues()
        if row.kind == USER:
            used[CHANNELS] = limits.channels_of(row.name)
        keys.append(key)
        rows.append(LimitRow(row.kind, row.name, dict(row.limits), used))
    return request.keyed(LimitListing(rows, pager.total, pager.next()), pager, keys, shared)


def change(request: Request) -> LimitsOf:
    wanted = request.fields.get("limits")
    if not isinstance(wanted, Mapping) or not wanted:
        raise OperatorError("limits set needs limits, as max-connections=100")
    kind, name = request.text("kind"), request.text("name")
    return _note(request, request.broker.limits.set(kind, name, wanted))


def clear(request: Request) -> LimitsOf:
    keys = request.fields.get("keys", [])
    if not isinstance(keys, list):
        raise OperatorError("limits clear takes a list of keys")
    kind, name = request.text("kind"), request.text("name")
    return _note(request, request.broker.limits.clear(kind, name, [str(key) for key in keys]))


def _note(request: Request, limits: dict[str, int]) -> LimitsOf:
    kind, name = request.text("kind"), request.text("name")
    said = ", ".join(f"{key} {value}" for key, value in limits.items()) or "none"
    request.broker.recorder.record(SETTING_CHANGED, f"limits:{kind}:{name}", "", said, 0)
    request.broker.note(f"limits of {kind} '{name}': {said}")
    return LimitsOf(kind, name, limits)
