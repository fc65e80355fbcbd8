"""`/api/overview`, `/api/nodes`, `/api/cluster-name`, `/api/whoami`, `/api/auth` and what is
answered for readers that ask for RabbitMQ's plugins."""

import platform
from typing import Final

from starlette.responses import Response

from penstock import __version__
from penstock.management.broker_link import Row
from penstock.management.errors import not_found
from penstock.management.requests import Call, Handler, gone, json
from penstock.routing.factory import EXCHANGE_KINDS

STATS: Final = {
    "publish": ("received", "conn:published"),
    "confirm": ("confirmed", "conn:confirmed"),
    "return_unroutable": ("returned", ""),
    "drop_unroutable": ("lost", ""),
    "deliver_get": ("delivered", "queue:delivered"),
    "deliver": ("consumed", "queue:delivered"),
    "deliver_no_ack": ("auto_delivered", ""),
    "get": ("got", ""),
    "get_no_ack": ("auto_got", ""),
    "get_empty": ("got_empty", ""),
    "ack": ("acked", "queue:acked"),
    "redeliver": ("redelivered", "queue:redelivered"),
    "publish_in": ("received", "conn:published"),
    "publish_out": ("routed", "queue:published"),
}
"""Count and rate of ours by RabbitMQ's name."""
OF_CHANNELS: Final = ("confirm", "return_unroutable", "drop_unroutable")
"""Of these, what no queue knows of."""
AS_PUBLISH: Final = ("publish_in", "publish_out")
"""Of these, what a queue has one count for."""
OBJECTS: Final = ("connections", "channels", "exchanges", "queues", "consumers")
CHURN: Final = [
    "connections_opened",
    "connections_closed",
    "channels_opened",
    "channels_closed",
    "queues_declared",
    "queues_created",
    "queues_deleted",
]


def rate(value: float) -> Row:
    return {"rate": round(value, 2)}


async def overview(call: Call) -> Response:
    """The node, its totals and rates. Who does not see all is told of his own virtual hosts and
    connections, and of nothing else."""
    node = await call.link.node()
    found: Row = {
        "management_version": call.services.rabbitmq_version,
        "rates_mode": "basic",
        "sample_retention_policies": {"global": [60], "basic": [60], "detailed": [60]},
        "release_series_support_status": "supported",
        "disable_stats": False,
        "enable_queue_totals": False,
        "product_name": "Penstock",
        "product_version": __version__,
        "rabbitmq_version": call.services.rabbitmq_version,
        "cluster_name": node["cluster_name"],
        "erlang_version": f"python-{platform.python_version()}",
        "erlang_full_version": f"Python {platform.python_version()}, {node['build']}",
        "crypto_lib_version": "",
        "default_queue_type": "classic",
        "statistics_db_event_queue": 0,
        "exchange_types": [
            {"name": kind, "description": f"exchange type {kind}", "enabled": True}
            for kind in EXCHANGE_KINDS
        ],
        "churn_rates": {
            key: value
            for name in CHURN
            for key, value in (
                (_singular(name), node["counts"][name]),
                (f"{_singular(name)}_details", rate(0.0)),
            )
        },
    }
    if not call.visitor.sees_all:
        return call.one(found | await _own_sums(call, node))
    return call.one(found | _sums(node))


def _sums(node: Row) -> Row:
    """Of the whole node."""
    totals, counts, rates = node["totals"], node["counts"], node["rates"]
    ready, unacked = totals["messages_ready"], totals["messages_unacknowledged"]
    entered, delivered = rates.get("queue:published", 0.0), rates.get("queue:delivered", 0.0)
    acked = rates.get("queue:acked", 0.0)
    others = counts["auto_delivered"] + counts["got"] + counts["auto_got"]
    # What was returned had no route either.
    lost = max(0, counts["unroutable"] - counts["returned"])
    counts = counts | {"consumed": counts["delivered"] - others, "lost": lost}
    stats: Row = {}
    for name, (own, rated) in STATS.items():
        stats[name] = counts[own]
        stats[f"{name}_details"] = rate(rates.get(rated, 0.0))
    return {
        "node": node["node"],
        "cluster_tags": [],
        "node_tags": [],
        "listeners": node["listeners"],
        "contexts": [],
        "queue_totals": {
            "messages": ready + unacked,
            "messages_details": rate(entered - acked),
            "messages_ready": ready,
            "messages_ready_details": rate(entered - delivered),
            "messages_unacknowledged": unacked,
            "messages_unacknowledged_details": rate(delivered - acked),
        },
        "object_totals": {name: totals[name] for name in OBJECTS},
        "message_stats": stats,
        "flow": {"profile": node["profile"], "connections": node["states"]},
    }


async def _own_sums(call: Call, node: Row) -> Row:
    """Of the visitor's virtual hosts, and of his own connections and channels. A publish counts
    there in each queue that it has reached."""
    queues: list[Row] = []
    exchanges = 0
    for vhost in sorted(call.visitor.vhosts & set(node["vhosts"])):
        queues += await call.link.listing("queues", vhost=vhost)
        exchanges += len(await call.link.listing("exchanges", vhost=vhost))
    name = call.visitor.name
    connections = await call.link.listing("connections", user=name)
    channels = await call.link.listing("channels", user=name)
    queue_stats = [row["message_stats"] for row in queues]
    channel_stats = [row["message_stats"] for row in channels]
    stats: Row = {}
    for one in STATS:
        counted = channel_stats if one in OF_CHANNELS else queue_stats
        stats |= _added(counted, one, "publish" if one in AS_PUBLISH else one)
    totals: Row = {}
    for one in ("messages", "messages_ready", "messages_unacknowledged"):
        totals |= _added(queues, one, one)
    counts = {
        "connections": len(connections),
        "channels": len(channels),
        "exchanges": exchanges,
        "queues": len(queues),
        "consumers": sum(row["consumers"] for row in queues),
    }
    return {"queue_totals": totals, "object_totals": counts, "message_stats": stats}


def _added(rows: list[Row], name: str, field: str) -> Row:
    """`field` of all `rows`, and its rates, as `name`."""
    rates = sum(row.get(f"{field}_details", {}).get("rate", 0.0) for row in rows)
    return {name: sum(row.get(field, 0) for row in rows), f"{name}_details": rate(rates)}


def _singular(name: str) -> str:
    """`connections_opened` is `connection_created` in RabbitMQ."""
    what, _, how = name.partition("_")
    return f"{what[:-1]}_{'created' if how == 'opened' else how}"


def node_row(node: Row) -> Row:
    """A node as `/api/nodes` has it."""
    machine = node["machine"]
    return {
        "name": node["node"],
        "type": "disc",
        "running": True,
        "being_drained": False,
        "uptime": node["uptime_ms"],
        "run_queue": 0,
        "processors": machine["processors"],
        "os_pid": machine["os_pid"],
        "fd_used": machine["fd_used"],
        "fd_total": machine["fd_total"],
        "sockets_used": node["totals"]["connections"],
        "sockets_total": machine["fd_total"],
        "proc_used": node["totals"]["channels"] + node["totals"]["queues"],
        "proc_total": 1_048_576,
        "mem_used": machine["mem_used"],
        "mem_limit": machine["mem_limit"],
        "mem_alarm": machine["mem_alarm"],
        "mem_calculation_strategy": "rss",
        "disk_free": machine["disk_free"],
        "disk_free_limit": machine["disk_free_limit"],
        "disk_free_alarm": machine["disk_free_alarm"],
        "rates_mode": "basic",
        "net_ticktime": 60,
        "partitions": [],
        "cluster_links": [],
        "enabled_plugins": ["rabbitmq_management", "rabbitmq_prometheus"],
        "applications": [
            {"name": "penstock", "description": "Penstock", "version": node["version"]}
        ],
        "auth_mechanisms": [],
        "config_files": [],
        "log_files": [],
        "db_dir": "",
        "contexts": [],
        "io_sync_count": machine["syncs"]["count"],
        "io_sync_avg_time": 1000 * machine["syncs"]["seconds"] / max(1, machine["syncs"]["count"]),
        **{_singular(name): node["counts"][name] for name in CHURN},
    }


async def nodes(call: Call) -> Response:
    call.visitor.need_monitor()
    node = await call.link.node()
    return await call.shown([node_row(node), *map(_other_node, node["cluster"]["others"])])


def _other_node(one: Row) -> Row:
    """Another node of the cluster: what RabbitMQ says of one that it has no figures of."""
    return {
        "name": f"penstock@{one['name']}",
        "type": "disc",
        "running": one["is_online"],
        "partitions": [],
    }


def _named(call: Call, node: Row) -> Row | None:
    """The other node of the cluster that is asked for, None for the one that answers."""
    name = call.path("name")
    if name == node["node"]:
        return None
    for one in map(_other_node, node["cluster"]["others"]):
        if one["name"] == name:
            return one
    raise not_found()


async def one_node(call: Call) -> Response:
    call.visitor.need_monitor()
    node = await call.link.node()
    return call.one(_named(call, node) or node_row(node))


async def node_memory(call: Call) -> Response:
    """Where memory is, by what holds it. Of other nodes, as of RabbitMQ's that cannot be asked, it
    is not known."""
    call.visitor.need_monitor()
    node = await call.link.node()
    if _named(call, node) is not None:
        return json({"memory": "not_available"})
    used = node["machine"]["mem_used"]
    return json({"memory": {"total": {"rss": used, "allocated": used}, "strategy": "rss"}})


async def cluster_name(call: Call) -> Response:
    node = await call.link.node()
    return json({"name": node["cluster_name"]})


async def whoami(call: Call) -> Response:
    visitor = call.visitor
    return json(
        {
            "name": visitor.name,
            "tags": sorted(visitor.tags),
            "is_internal_user": True,
            "auth_backend": "rabbit_auth_backend_internal",
            # Older clients ask for this one.
            "administrator": visitor.is_administrator,
        }
    )


async def attempts(call: Call) -> Response:
    """Logins of a node, by protocol. All are at the one that leads."""
    call.visitor.need_monitor()
    node = await call.link.node()
    if _named(call, node) is not None:
        return json([])
    failed, opened = node["machine"]["login_failures"], node["counts"]["connections_opened"]
    row = {"protocol": "amqp091", "auth_attempts": failed + opened}
    more = {"auth_attempts_failed": failed, "auth_attempts_succeeded": opened}
    return json([row | more])


async def auth(_call: Call) -> Response:
    """How pages log in: with a name and a password."""
    return json({"oauth_enabled": False})


async def rebalance(call: Call) -> Response:
    """Changes nothing. One node leads all queues; leaders of shards are spread by `penstock cluster
    rebalance`."""
    call.visitor.need_administrator()
    return gone()


async def nothing(_call: Call) -> Response:
    """Penstock has none of these, or they are switched by nobody: an empty list."""
    return json([])


ROUTES: Final[dict[tuple[str, str], Handler]] = {
    ("GET", "/overview"): overview,
    ("GET", "/nodes"): nodes,
    ("GET", "/nodes/{name}"): one_node,
    ("GET", "/nodes/{name}/memory"): node_memory,
    ("GET", "/cluster-name"): cluster_name,
    ("GET", "/whoami"): whoami,
    ("GET", "/extensions"): nothing,
    ("GET", "/feature-flags"): nothing,
    ("GET", "/deprecated-features"): nothing,
    ("GET", "/deprecated-features/used"): nothing,
    ("GET", "/federation-links"): nothing,
    ("GET", "/federation-links/{vhost}"): nothing,
    ("GET", "/shovels"): nothing,
    ("GET", "/shovels/{vhost}"): nothing,
    ("GET", "/global-parameters"): nothing,
    ("GET", "/stream/connections"): nothing,
    ("GET", "/stream/connections/{vhost}"): nothing,
    ("GET", "/stream/publishers"): nothing,
    ("GET", "/stream/publishers/{vhost}"): nothing,
    ("GET", "/stream/consumers"): nothing,
    ("GET", "/stream/consumers/{vhost}"): nothing,
    ("GET", "/auth"): auth,
    ("GET", "/auth/attempts/{name}"): attempts,
    ("GET", "/auth/attempts/{name}/source"): nothing,
    ("POST", "/rebalance/queues"): rebalance,
}
