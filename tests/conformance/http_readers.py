"""What tools ask RabbitMQ's HTTP API for, and the fields that they read in the answers.

A field is a path: `items.[].name` is `name` in every row of `items`; one that ends in `?` may be
missing. Sources: the tools' own code, see each.
"""

from typing import Any, Final, NamedTuple


class Read(NamedTuple):
    """One request of a tool. body: what is sent; status: what must come; fields: what is read."""

    method: str
    path: str
    fields: tuple[str, ...] = ()
    body: Any = None
    status: tuple[int, ...] = (200,)


def of(prefix: str, *names: str) -> tuple[str, ...]:
    """Names below `prefix`."""
    return tuple(f"{prefix}.{name}" for name in names)


def rated(prefix: str, *names: str) -> tuple[str, ...]:
    """Counts below `prefix`, and the rate of each."""
    return tuple(
        one for name in names for one in (f"{prefix}.{name}", f"{prefix}.{name}_details.rate")
    )


TELEGRAF: Final = (
    Read(
        "GET",
        "/overview",
        (
            *of("object_totals", "channels", "connections", "consumers", "exchanges", "queues"),
            *of("queue_totals", "messages", "messages_ready", "messages_unacknowledged"),
            *rated("message_stats", "ack", "deliver", "deliver_get", "publish", "publish_in"),
            *rated("message_stats", "publish_out", "redeliver", "return_unroutable"),
            *("message_stats.drop_unroutable", "message_stats.confirm", "listeners.[].protocol"),
        ),
    ),
    Read(
        "GET",
        "/nodes",
        of(
            "[]",
            *("name", "disk_free", "disk_free_limit", "disk_free_alarm", "fd_total", "fd_used"),
            *("mem_limit", "mem_used", "mem_alarm", "proc_total", "proc_used", "run_queue"),
            *("sockets_total", "sockets_used", "running", "uptime"),
            *("gc_num?", "gc_bytes_reclaimed?", "io_read_avg_time?", "mnesia_disk_tx_count?"),
        ),
    ),
    Read("GET", "/nodes/NODE/memory", ("memory.total",)),
    Read(
        "GET",
        "/queues",
        (
            *of("[]", "name", "node", "vhost", "durable", "auto_delete", "consumers"),
            *of("[]", "consumer_utilisation", "head_message_timestamp", "idle_since?"),
            *of("[]", "memory", "message_bytes", "message_bytes_ready", "message_bytes_ram"),
            *of("[]", "message_bytes_unacknowledged", "message_bytes_persistent"),
            *rated("[]", "messages", "messages_ready", "messages_unacknowledged"),
            *rated("[].message_stats", "ack", "deliver", "deliver_get", "publish", "redeliver"),
            *("[].slave_nodes?", "[].synchronised_slave_nodes?"),
        ),
    ),
    Read(
        "GET",
        "/exchanges",
        (
            *of("[]", "name", "vhost", "type", "internal", "durable", "auto_delete"),
            "[].message_stats?",
        ),
    ),
    Read("GET", "/federation-links"),
)
"""Source: telegraf, plugins/inputs/rabbitmq."""

DATADOG: Final = (
    Read(
        "GET",
        "/overview",
        (
            *("rabbitmq_version", "cluster_name"),
            *of("object_totals", "connections", "channels", "queues", "consumers"),
            *rated("queue_totals", "messages", "messages_ready", "messages_unacknowledged"),
            *rated("message_stats", "ack", "confirm", "deliver_get", "publish", "publish_in"),
            *rated("message_stats", "publish_out", "return_unroutable", "redeliver"),
        ),
    ),
    Read("GET", "/vhosts", ("[].name",)),
    Read(
        "GET",
        "/nodes",
        of(
            "[]",
            *("name", "fd_used", "disk_free", "mem_used", "mem_limit", "run_queue"),
            *("sockets_used", "partitions", "running", "mem_alarm", "disk_free_alarm"),
        ),
    ),
    Read("GET", "/exchanges", of("[]", "name", "vhost", "type")),
    Read(
        "GET",
        "/queues?page=1&page_size=500",
        (
            *("page_count", "items.[].name", "items.[].node", "items.[].vhost", "items.[].policy"),
            *of("items.[]", "active_consumers?", "consumers", "consumer_utilisation", "memory"),
            *of("items.[]", "head_message_timestamp"),
            *rated("items.[]", "messages", "messages_ready", "messages_unacknowledged"),
            *rated("items.[].message_stats", "ack", "deliver", "deliver_get", "publish"),
            *rated("items.[].message_stats", "redeliver"),
        ),
    ),
    Read("GET", "/queues/%2F/read/bindings", of("[]", "source", "destination", "routing_key")),
    Read("GET", "/connections", ("[].vhost", "[].state")),
    Read("GET", "/vhosts/%2F/connections", ("[].vhost", "[].state")),
    Read("GET", "/aliveness-test/%2F", ("status",)),
)
"""Source: integrations-core, rabbitmq/datadog_checks, management mode."""

KEDA: Final = (
    Read(
        "GET",
        "/queues/%2F/read",
        (
            *("name", "messages", "messages_ready", "messages_unacknowledged"),
            "message_stats.publish_details.rate",
            "message_stats.deliver_get_details.rate",
        ),
    ),
    Read(
        "GET",
        "/queues/%2F?page=1&use_regex=true&pagination=false&name=%5Eread%24&page_size=100",
        (
            *("page_count", "items.[].name", "items.[].messages", "items.[].messages_ready"),
            "items.[].message_stats.publish_details.rate",
        ),
    ),
    Read(
        "GET",
        "/queues?page=1&use_regex=true&pagination=false&name=%5Eread%24&page_size=100",
        ("items.[].vhost",),
    ),
)
"""Source: keda, pkg/scalers/rabbitmq_scaler.go."""

KBUDDE: Final = (
    Read("GET", "/overview?sort=", of("object_totals", "queues", "connections")),
    Read(
        "GET",
        "/nodes?sort=",
        of(
            "[]",
            *("name", "uptime", "running", "mem_used", "mem_limit", "mem_alarm", "disk_free"),
            *("disk_free_alarm", "disk_free_limit", "fd_used", "fd_total", "sockets_used"),
            *("sockets_total", "partitions"),
        ),
    ),
    Read(
        "GET",
        "/queues?sort=",
        of(
            "[]",
            *("vhost", "name", "durable", "policy", "state", "node", "messages", "consumers"),
            *("message_bytes", "message_bytes_ready", "message_bytes_unacknowledged"),
            *("consumer_utilisation", "memory", "head_message_timestamp", "arguments"),
        ),
    ),
    Read("GET", "/exchanges?sort=", of("[]", "vhost", "name")),
    Read(
        "GET",
        "/connections?sort=",
        of(
            "[]",
            *("vhost", "node", "peer_host", "user", "state", "channels", "recv_oct", "recv_cnt"),
            *("send_oct", "send_cnt", "send_pend"),
        ),
    ),
    Read("GET", "/aliveness-test/%2F?sort=", ("status",)),
    Read("GET", "/shovels?sort="),
    Read("GET", "/federation-links?sort="),
)
"""Source: kbudde/rabbitmq_exporter."""

PUT_OK: Final = (201, 204)
TERRAFORM: Final = (
    Read("GET", "/overview", ("rabbitmq_version", "node")),
    Read("PUT", "/vhosts/tf", body={}, status=PUT_OK),
    Read("GET", "/vhosts/tf", ("name",)),
    Read("PUT", "/users/tf", body={"password": "p", "tags": "management"}, status=PUT_OK),
    Read("GET", "/users/tf", ("name", "tags")),
    Read(
        "PUT",
        "/permissions/tf/tf",
        body={"configure": ".*", "write": ".*", "read": ".*"},
        status=PUT_OK,
    ),
    Read("GET", "/permissions/tf/tf", ("user", "vhost", "configure", "write", "read")),
    Read(
        "PUT",
        "/topic-permissions/tf/tf",
        body={"exchange": "amq.topic", "write": ".*", "read": ".*"},
        status=PUT_OK,
    ),
    Read("GET", "/topic-permissions/tf/tf", of("[]", "exchange", "write", "read")),
    Read("PUT", "/exchanges/tf/e", body={"type": "topic", "durable": True}, status=PUT_OK),
    Read("GET", "/exchanges/tf/e", ("name", "type", "durable", "auto_delete", "arguments")),
    Read("PUT", "/queues/tf/q", body={"durable": True, "arguments": {}}, status=PUT_OK),
    Read("GET", "/queues/tf/q", ("name", "durable", "auto_delete", "arguments", "type")),
    Read("POST", "/bindings/tf/e/e/q/q", body={"routing_key": "a", "arguments": {}}, status=(201,)),
    Read(
        "GET",
        "/bindings/tf",
        (
            *of("[]", "source", "vhost", "destination", "destination_type", "routing_key"),
            *of("[]", "arguments", "properties_key"),
        ),
    ),
    Read(
        "PUT",
        "/policies/tf/p",
        body={"pattern": "^q", "definition": {"max-length": 9}, "priority": 0, "apply-to": "all"},
        status=PUT_OK,
    ),
    Read("GET", "/policies/tf/p", ("name", "pattern", "definition", "priority", "apply-to")),
    Read(
        "PUT",
        "/operator-policies/tf/o",
        body={"pattern": "^q", "definition": {"max-length": 9}, "apply-to": "queues"},
        status=PUT_OK,
    ),
    Read("GET", "/operator-policies/tf/o", ("name", "definition", "apply-to")),
    Read("PUT", "/vhost-limits/tf/max-queues", body={"value": 9}, status=PUT_OK),
    Read("GET", "/vhost-limits/tf", of("[]", "vhost", "value.max-queues")),
    Read("DELETE", "/vhost-limits/tf/max-queues", status=(204,)),
    Read("DELETE", "/operator-policies/tf/o", status=(204,)),
    Read("DELETE", "/policies/tf/p", status=(204,)),
    Read("DELETE", "/bindings/tf/e/e/q/q/a", status=(204,)),
    Read("DELETE", "/queues/tf/q", status=(204,)),
    Read("DELETE", "/exchanges/tf/e", status=(204,)),
    Read("DELETE", "/topic-permissions/tf/tf", status=(204,)),
    Read("DELETE", "/permissions/tf/tf", status=(204,)),
    Read("DELETE", "/users/tf", status=(204,)),
    Read("DELETE", "/vhosts/tf", status=(204,)),
    Read("GET", "/vhosts/tf", status=(404,)),
)
"""Source: terraform-provider-rabbitmq with rabbit-hole; one plan, applied and destroyed."""

READERS: Final = {
    "Telegraf": TELEGRAF,
    "Datadog": DATADOG,
    "KEDA": KEDA,
    "kbudde's exporter": KBUDDE,
    "Terraform": TERRAFORM,
}


def lacking(field: str, value: Any) -> bool:
    """Whether an answer lacks a field that must be there; a list needs a row."""
    wanted = field.removesuffix("?")
    rows = [value]
    for part in wanted.split("."):
        if part == "[]":
            rows = [one for row in rows for one in row]
        elif field.endswith("?"):
            return False
        elif not rows or not all(isinstance(row, dict) and part in row for row in rows):
            return True
        else:
            rows = [row[part] for row in rows]
    return not rows
