"""What the control socket answers about limits of virtual hosts and users.

One request is {"op": "limits", "do": "list" | "set" | "clear", "kind": "vhost" | "user", ...}.
Beside a `name`, `set` carries `limits`, an object, and `clear` carries `keys`, none for all.
"""

from collections.abc import Mapping

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import LimitListing, LimitRow, LimitsOf
from penstock.broker.session.entry_limits import CHANNELS, CONNECTIONS, QUEUES, USER, VHOST
from penstock.server.control.request import Request
from penstock.telemetry.events import SETTING_CHANGED


def listing(request: Request) -> LimitListing:
    """Every vhost and user with a limit; `used` holds what there is now, by the same keys."""
    limits = request.broker.limits
    rows: list[LimitRow] = []
    for row in limits.rows():
        used = {CONNECTIONS: limits.connections_of(row.kind, row.name)}
        if row.kind == VHOST:
            used[QUEUES] = request.broker.vhosts[row.name].counted_queues()
        if row.kind == USER:
            used[CHANNELS] = limits.channels_of(row.name)
        rows.append(LimitRow(row.kind, row.name, dict(row.limits), used))
    return LimitListing(rows)


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
