"""What the control socket answers about limits of virtual hosts and users.

One request is {"op": "limits", "do": "list" | "set" | "clear", "kind": "vhost" | "user", ...}.
Beside a `name`, `set` carries `limits`, an object, and `clear` carries `keys`, none for all.
"""

from collections.abc import Mapping

from penstock.base.errors import OperatorError
from penstock.broker.admin.answers import LimitListing, LimitRow, LimitsOf
from penstock.broker.broker import Broker
from penstock.broker.session.entry_limits import CHANNELS, CONNECTIONS, QUEUES, USER, VHOST
from penstock.telemetry.events import SETTING_CHANGED


class LimitQuestions:
    """broker: its present."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker

    def answer(self, request: dict[str, object]) -> LimitListing | LimitsOf:
        """Raises: OperatorError for a question it does not know, or a limit that cannot be."""
        do = request.get("do", "list")
        if do == "list":
            return LimitListing(self._rows())
        kind, name = str(request.get("kind", "")), str(request.get("name", ""))
        if do == "set":
            wanted = request.get("limits")
            if not isinstance(wanted, Mapping) or not wanted:
                raise OperatorError("limits set needs limits, as max-connections=100")
            return self._note(kind, name, self.broker.limits.set(kind, name, wanted))
        if do == "clear":
            keys = request.get("keys", [])
            if not isinstance(keys, list):
                raise OperatorError("limits clear takes a list of keys")
            kept = self.broker.limits.clear(kind, name, [str(key) for key in keys])
            return self._note(kind, name, kept)
        raise OperatorError(f"unknown question 'limits {do}'; one of: list, set, clear")

    def _rows(self) -> list[LimitRow]:
        """Every vhost and user with a limit; `used` holds what there is now, by the same keys."""
        limits = self.broker.limits
        rows: list[LimitRow] = []
        for row in limits.rows():
            used = {CONNECTIONS: limits.connections_of(row.kind, row.name)}
            if row.kind == VHOST:
                used[QUEUES] = self.broker.vhosts[row.name].counted_queues()
            if row.kind == USER:
                used[CHANNELS] = limits.channels_of(row.name)
            rows.append(LimitRow(row.kind, row.name, dict(row.limits), used))
        return rows

    def _note(self, kind: str, name: str, limits: dict[str, int]) -> LimitsOf:
        said = ", ".join(f"{key} {value}" for key, value in limits.items()) or "none"
        self.broker.recorder.record(SETTING_CHANGED, f"limits:{kind}:{name}", "", said, 0)
        self.broker.note(f"limits of {kind} '{name}': {said}")
        return LimitsOf(kind, name, limits)
