"""What the control socket answers about flow: edges, accounts, alarms, settings, and top.

One request is {"op": "flow", "do": "edges", ...}; what else it may carry is read by the function of
that name here. Times in answers are seconds, `*_s`, or nanoseconds, `*_ns`, back from now.
"""

from typing import Final

from msgspec.structs import asdict, replace

from penstock.base.clock import Clock
from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import flow_edges, flow_top
from penstock.broker.admin.alarm_watch import alarm_rows
from penstock.broker.admin.answers import (
    AlarmsAnswer,
    ChangeRow,
    Changes,
    QueueCauses,
    SettingRow,
    SettingRows,
)
from penstock.broker.admin.answers_flow import EDGE_SORTS, TOP_SORTS
from penstock.broker.admin.flow_ledger import SORTS as LEDGER_SORTS
from penstock.broker.admin.flow_ledger import placed_accounts
from penstock.broker.admin.queue_causes import queue_causes
from penstock.broker.settings.settings import SettingKeeper, not_kept
from penstock.explain.naming import names_in_steps, naming
from penstock.explain.window_index import emptying
from penstock.server.control.request import Keyed, Request

WINDOW_S_MAX: Final = 60.0
NS_PER_S: Final = 1_000_000_000
KEPT_S: Final = 5.0
"""For changed settings to be kept, until the answer says that they are not yet."""
LOOK_S: Final = 0.005


def names_of(request: Request) -> Steps[dict[str, str]]:
    """What connections are called, by address."""
    names = yield from names_in_steps(request.windows(1.0))
    return names.by_address


def edges(request: Request) -> Steps[Keyed]:
    """Edges, in steps."""
    sort = request.one_of("sort", EDGE_SORTS)
    pager = request.pager(sort)
    names = yield from names_of(request)
    vhost, is_blocked_only = request.vhost(), request.is_set("blocked")
    answer = yield from flow_edges.edges(request.broker, names, vhost, is_blocked_only, sort, pager)
    return request.keyed(asdict(answer), pager)


def accounts_of(request: Request) -> Steps[QueueCauses | Keyed]:
    """Accounts, or QueueCauses of one `queue`."""
    names = yield from names_in_steps(request.windows(1.0))
    queue = request.text("queue")
    sort = request.one_of("sort", LEDGER_SORTS)
    pager = request.pager(sort)
    if queue != "":
        return (yield from queue_causes(request.broker, queue, sort, names, pager))
    answer, keys = yield from placed_accounts(request.broker, request.vhost(), sort, names, pager)
    return request.keyed(answer, pager, keys, 0 if request.vhost() else 1)


def alarms(request: Request) -> Steps[AlarmsAnswer]:
    names = yield from names_of(request)
    return AlarmsAnswer(alarm_rows(request.broker.alarm_manager, names))


def settings(request: Request) -> SettingRows:
    return SettingRows(
        [
            SettingRow(
                one.key,
                one.read(),
                one.unit,
                one.meaning,
                request.broker.changes.reverts_in_ns(one.key) / NS_PER_S,
            )
            for one in request.broker.settings.all()
        ]
    )


def change(request: Request) -> Changes | Steps[Changes]:
    """In steps where what is changed for good is kept for other brokers."""
    wanted = request.fields.get("changes")
    if not isinstance(wanted, dict) or not wanted:
        raise OperatorError("nothing to set; write KEY=VALUE")
    lasting = request.text("for")
    changes = request.broker.changes
    texts = {str(key): str(value) for key, value in wanted.items()}
    for_ns = parse_duration_ns(lasting) if lasting != "" else 0
    done = changes.change(list(texts.items()), for_ns)
    request.run_soon()
    answer = Changes(
        [ChangeRow(one.key, one.before, one.after, one.reverts_in_ns / NS_PER_S) for one in done]
    )
    if changes.keeper is None or for_ns > 0:
        return answer
    changes.keeper.keep(texts)
    return _when_kept(request.broker.context.clock, changes.keeper, answer)


def _when_kept(clock: Clock, keeper: SettingKeeper, answer: Changes) -> Steps[Changes]:
    """The answer, once changes are kept, or it is known that they cannot be yet."""
    end_ns = clock.monotonic_ns() + round(KEPT_S * NS_PER_S)
    while (why := keeper.waits()) is None and clock.monotonic_ns() < end_ns:
        yield LOOK_S
    return answer if why == "" else replace(answer, words=not_kept(why or "no answer yet"))


def take_over(request: Request) -> Steps[dict[str, list[str]]]:
    """As `change`, but each by itself, in steps: what the parent of workers asks of one that begins
    later than others. `refused`: why one was not taken over, a sentence each."""
    changes = request.fields.get("changes")
    if not isinstance(changes, dict):
        raise OperatorError("nothing to take over; `changes` is an object of settings")
    texts = {str(key): str(value) for key, value in changes.items()}
    refused = yield from request.broker.changes.take_over(texts)
    request.run_soon()
    return {"refused": refused}


def top(request: Request) -> Steps[Keyed]:
    """A Frame; with the places of its rows, by table, for who asks several workers of a node."""
    window_s = request.fields.get("window_s", 10.0)
    if not isinstance(window_s, int | float) or not 0 < window_s <= WINDOW_S_MAX:
        raise OperatorError(f"window of {window_s} s: must be above 0 and at most {WINDOW_S_MAX:g}")
    windows = yield from naming(request.windows(float(window_s)))
    sort = request.one_of("sort", TOP_SORTS)
    answer, keys = yield from flow_top.placed_frame(
        request.broker, windows, float(window_s), sort, request.limit()
    )
    yield from emptying((windows,))
    return asdict(answer) | {"keys": keys} if request.is_set("with_keys") else answer
