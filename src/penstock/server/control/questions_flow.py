"""What the control socket answers about flow: edges, accounts, alarms, settings, and top.

One request is {"op": "flow", "do": "edges", ...}; what else it may carry is read by the function of
that name here. Times in answers are seconds, `*_s`, or nanoseconds, `*_ns`, back from now.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.broker.admin import flow_edges, flow_top
from penstock.broker.admin.alarm_watch import alarm_rows
from penstock.broker.admin.answers import (
    Accounts,
    AlarmsAnswer,
    ChangeRow,
    Changes,
    QueueCauses,
    SettingRow,
    SettingRows,
)
from penstock.broker.admin.flow_ledger import accounts, queue_causes
from penstock.broker.broker import Broker
from penstock.explain.naming import Names, named
from penstock.telemetry.actor_window import ActorWindow

ROWS_MAX: Final = 10_000
WINDOW_S_MAX: Final = 60.0
NS_PER_S: Final = 1_000_000_000

Windows = Callable[[float], Mapping[str, ActorWindow]]


class FlowQuestions:
    """broker: its present; windows: of every actor over the last so many seconds;
    run_soon: lets the broker work on what a changed setting has set free."""

    def __init__(self, broker: Broker, windows: Windows, run_soon: Callable[[], None]) -> None:
        self.broker = broker
        self.windows = windows
        self.run_soon = run_soon

    def answer(self, request: dict[str, object]) -> msgspec.Struct:
        """Raises: OperatorError for a question it does not know, or a bad value in one."""
        answers: dict[str, Callable[[dict[str, object]], msgspec.Struct]] = {
            "edges": self._edges,
            "accounts": self._accounts,
            "alarms": self._alarms,
            "settings": self._settings,
            "set": self._set,
            "top": self._top,
        }
        do = str(request.get("do", ""))
        if do not in answers:
            raise OperatorError(f"unknown question 'flow {do}'; one of: {', '.join(answers)}")
        return answers[do](request)

    def _names(self) -> dict[str, str]:
        """What connections are called, by address."""
        return Names(self.windows(1.0)).by_address

    def _edges(self, request: dict[str, object]) -> flow_edges.Edges:
        return flow_edges.edges(
            self.broker,
            self._names(),
            self._vhost(request),
            request.get("blocked") is True,
            _one_of(request, "sort", flow_edges.SORTS),
            _limit(request),
        )

    def _accounts(self, request: dict[str, object]) -> Accounts | QueueCauses:
        names = Names(self.windows(1.0))
        queue = str(request.get("queue", ""))
        if queue != "":
            return queue_causes(self.broker, queue, _limit(request), names)
        return accounts(self.broker, self._vhost(request), _limit(request), names)

    def _alarms(self, request: dict[str, object]) -> AlarmsAnswer:
        return AlarmsAnswer(alarm_rows(self.broker.alarm_manager, self._names()))

    def _settings(self, request: dict[str, object]) -> SettingRows:
        return SettingRows(
            [
                SettingRow(
                    one.key,
                    one.read(),
                    one.unit,
                    one.meaning,
                    self.broker.changes.reverts_in_ns(one.key) / NS_PER_S,
                )
                for one in self.broker.settings.all()
            ]
        )

    def _set(self, request: dict[str, object]) -> Changes:
        changes = request.get("changes")
        if not isinstance(changes, dict) or not changes:
            raise OperatorError("nothing to set; write KEY=VALUE")
        lasting = str(request.get("for", ""))
        done = self.broker.changes.change(
            [(str(key), str(value)) for key, value in changes.items()],
            parse_duration_ns(lasting) if lasting != "" else 0,
        )
        self.run_soon()
        return Changes(
            [
                ChangeRow(one.key, one.before, one.after, one.reverts_in_ns / NS_PER_S)
                for one in done
            ]
        )

    def _top(self, request: dict[str, object]) -> flow_top.Frame:
        window_s = request.get("window_s", 10.0)
        if not isinstance(window_s, int | float) or not 0 < window_s <= WINDOW_S_MAX:
            raise OperatorError(
                f"window of {window_s} s: must be above 0 and at most {WINDOW_S_MAX:g}"
            )
        return flow_top.frame(
            self.broker,
            named(self.windows(float(window_s))),
            float(window_s),
            _one_of(request, "sort", flow_top.SORTS),
            _limit(request),
        )

    def _vhost(self, request: dict[str, object]) -> str:
        vhost = str(request.get("vhost", ""))
        if vhost != "" and vhost not in self.broker.vhosts:
            known = ", ".join(sorted(self.broker.vhosts))
            raise OperatorError(f"no vhost '{vhost}'; one of: {known}")
        return vhost


def _one_of(request: dict[str, object], key: str, known: tuple[str, ...]) -> str:
    value = str(request.get(key, known[0]))
    if value not in known:
        raise OperatorError(f"{key} '{value}' is unknown; one of: {', '.join(known)}")
    return value


def _limit(request: dict[str, object]) -> int:
    limit = request.get("limit", 50)
    if not isinstance(limit, int) or not 1 <= limit <= ROWS_MAX:
        raise OperatorError(f"limit of {limit} rows: must be 1..{ROWS_MAX}")
    return limit
