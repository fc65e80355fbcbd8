"""What the control socket answers about virtual hosts.

One request is {"op": "vhosts", "do": "list" | "add" | "delete", "name": ...}.
"""

from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import vhosts
from penstock.broker.admin.answers import Changed
from penstock.broker.admin.answers_access import VhostRow
from penstock.broker.admin.paging import Key
from penstock.broker.session.entry_limits import VHOST
from penstock.server.control.request import Keyed, Request

QUEUES_PER_STEP: Final = 256
LOOK_S: Final = 0.001


def listing(request: Request) -> Steps[Keyed]:
    """A VhostListing, in steps: messages are counted queue by queue."""
    broker = request.broker
    pager = request.pager()
    for index, name in enumerate(list(broker.vhosts), 1):
        pager.offer((name,), name)
        if index % QUEUES_PER_STEP == 0:
            yield 0.0
    rows = []
    keys: list[Key] = []
    for key, name in pager.placed():
        if name not in broker.vhosts:
            continue
        messages = unacknowledged = count = 0
        for count, actor in enumerate(broker.queues_in(name), 1):
            messages += int(actor.messages.ready_count()) + int(actor.unacked_count)
            unacknowledged += int(actor.unacked_count)
            if count % QUEUES_PER_STEP == 0:
                yield 0.0
        connections = broker.limits.connections_of(VHOST, name)
        is_configured = name in broker.config.vhosts
        of = broker.limits.limits_of(VHOST, name)
        row = VhostRow(name, count, messages, connections, of, is_configured, unacknowledged)
        rows.append(row)
        keys.append(key)
        yield 0.0
    page: dict[str, object] = {"vhosts": rows, "total": pager.total, "next": pager.next()}
    return request.keyed(page, pager, keys)


def add(request: Request) -> Changed:
    name = request.text("name")
    vhosts.add(request.broker, name)
    able = f"penstock permissions set USER ... --vhost {name}"
    return Changed(f"vhost '{name}' is there; who may do something in it: {able}")


def delete(request: Request) -> Steps[dict[str, object]]:
    name = request.text("name")
    deletion = vhosts.delete(request.broker, name)
    while not deletion.is_done:
        request.run_soon()
        yield LOOK_S
    closed = f"connections closed: {deletion.connections}, queues deleted: {deletion.queues}"
    return {"said": f"vhost '{name}' is deleted; {closed}"}
