"""The one table of what commands ask, and how each is asked over either way to a broker.

A question is what the control socket takes, {"op": "queues", "do": "list", ...}. Over HTTP it
becomes a request of RabbitMQ's API, and the answer becomes what the control socket would have said.
What AMQP has a method for (declare, delete, purge, bind, publish, get) is done by AMQP over the
control socket, and over HTTP by the management process, which does it by AMQP as the user who asks:
the checks and the texts are the broker's own either way.
"""

from typing import TYPE_CHECKING, Final

from penstock.base.errors import OperatorError
from penstock.cli import http_changes as change
from penstock.cli import http_listings as rows
from penstock.cli import topology_ways as topology
from penstock.cli.way import RIGHTS, Row, Way

if TYPE_CHECKING:
    from penstock.cli.http_way import HttpWay


def over_http(http: "HttpWay", request: Row) -> Row:
    """Ask `request` over HTTP. Raises: OperatorError."""
    name = f"{request['op']} {request.get('do', '')}".strip()
    way = WAYS.get(name)
    if way is None:
        raise OperatorError(
            f"'{name}' is answered by the control socket only: run this on the broker's machine, "
            "without --url"
        )
    try:
        return way.http(http, request)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        # It is taken apart as Penstock answers, and anything may listen at an address.
        raise OperatorError(
            f"{http.url} answers '{name}' otherwise than Penstock does ({error!r}): is it another "
            "broker's address, or a Penstock of another version?"
        ) from error


_PERMISSION: Final = ("permissions", "{vhost}", "{user}")
_TOPIC: Final = ("topic-permissions", "{vhost}", "{user}")
WAYS: Final[dict[str, Way]] = {
    "status": Way(change.flow("status")),
    "why": Way(change.why),
    "log": Way(change.flow("log", "level", "last", "since", "limit")),
    "flow edges": Way(change.flow("edges", "limit", "after", "sort", "vhost", "blocked")),
    "flow accounts": Way(change.flow("accounts", "limit", "after", "sort", "vhost", "queue")),
    "flow alarms": Way(change.flow("alarms")),
    "flow settings": Way(change.flow("settings")),
    "flow set": Way(change.change_settings),
    "flow top": Way(change.flow("top", "limit", "sort", "window_s")),
    "objects connections": Way(rows.listing("connections", "connections")),
    "objects channels": Way(rows.channels),
    "objects consumers": Way(rows.listing("consumers")),
    "objects queues": Way(rows.listing("queues")),
    "objects exchanges": Way(rows.listing("exchanges")),
    "objects bindings": Way(rows.bindings),
    "connections close": Way(change.close),
    "queues list": Way(rows.queues),
    "queues pause": Way(change.pause),
    "queues resume": Way(change.pause),
    "queues declare": Way(topology.declare_queue_http, topology.declare_queue),
    "queues delete": Way(topology.delete_queue_http, topology.delete_queue),
    "queues purge": Way(topology.purge_http, topology.purge),
    "queues get": Way(topology.get_http, topology.get),
    "queues move": Way(topology.move_http, topology.move),
    "exchanges declare": Way(topology.declare_exchange_http, topology.declare_exchange),
    "exchanges delete": Way(topology.delete_exchange_http, topology.delete_exchange),
    "exchanges publish": Way(topology.publish_http, topology.publish),
    "bindings bind": Way(topology.bind_http, topology.bind),
    "bindings unbind": Way(topology.unbind_http, topology.unbind),
    "users list": Way(rows.users),
    "users add": Way(change.add_user),
    "users delete": Way(
        change.simple("DELETE", ("users", "{name}"), (), "user '{name}' is deleted")
    ),
    "users change-password": Way(change.change_password),
    "users set-tags": Way(change.set_tags),
    "vhosts list": Way(rows.vhosts),
    "vhosts add": Way(change.add_vhost),
    "vhosts delete": Way(
        change.simple("DELETE", ("vhosts", "{name}"), (), "vhost '{name}' is deleted")
    ),
    "permissions list": Way(rows.permissions),
    "permissions set": Way(
        change.simple(
            "PUT",
            _PERMISSION,
            RIGHTS,
            "user '{user}' in vhost '{vhost}': configure '{configure}', write '{write}', "
            "read '{read}'",
        )
    ),
    "permissions clear": Way(
        change.simple("DELETE", _PERMISSION, (), "user '{user}' may do nothing in vhost '{vhost}'")
    ),
    "permissions set-topic": Way(
        change.simple(
            "PUT",
            _TOPIC,
            ("exchange", "write", "read"),
            "user '{user}' in vhost '{vhost}', keys of exchange '{exchange}': write '{write}', "
            "read '{read}'",
        )
    ),
    "permissions clear-topic": Way(change.clear_topic),
    "policies list": Way(rows.policies),
    "policies set": Way(change.set_policy),
    "policies clear": Way(change.clear_policy),
    "limits list": Way(rows.limits),
    "limits set": Way(change.set_limits),
    "limits clear": Way(change.clear_limits),
}
"""By op and do of the question; the rest is answered by the control socket alone."""
