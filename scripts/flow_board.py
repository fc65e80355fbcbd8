"""Prints packaging/grafana/penstock-flow.json, the Grafana board "Penstock flow", from a table.

    python scripts/flow_board.py > packaging/grafana/penstock-flow.json

Grafana's form of a board is a hundred lines a panel; what differs between panels is below.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

OF: Final = 'instance=~"$instance"'
RATE: Final = "[$__rate_interval]"
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
WIDTH: Final = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """queries: (PromQL, legend); unit: Grafana's word; kind: of its panel; tip: what it says, and
    what to do; width, height: of WIDTH columns, in rows."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str
    tip: str
    kind: str = "timeseries"
    width: int = 12
    height: int = 8
    is_stacked: bool = False


PANELS: Final = (
    Panel(
        "Publishers held",
        ((f'sum(penstock_flow_publishers{{{OF}, state=~"throttled|blocked"}})', ""),),
        "none",
        "Connections that publish and were held for 5 % of the last 10 s. Ask: penstock why.",
        "stat",
        6,
        4,
    ),
    Panel(
        "Alarm in",
        ((f'min(penstock_flow_alarm_eta_seconds{{{OF}, resource="memory"}})', ""),),
        "s",
        "Until the memory alarm at the present rise; infinite when none is coming.",
        "stat",
        6,
        4,
    ),
    Panel(
        "Queues that wait",
        ((f"sum by (reason) (penstock_queues_waiting{{{OF}}})", "{{reason}}"),),
        "none",
        "Queues with messages that no consumer is given: none there, all windows full, or paused.",
        "stat",
        6,
        4,
    ),
    Panel(
        "Alarms",
        (
            (f"sum(rabbitmq_alarms_memory_used_watermark{{{OF}}})", "memory"),
            (f"sum(rabbitmq_alarms_free_disk_space_watermark{{{OF}}})", "disk"),
        ),
        "none",
        "1 while publishers are stopped for want of memory or of room on the disk.",
        "stat",
        6,
        4,
    ),
    Panel(
        "Root causes",
        ((f"sum by (reason) (penstock_flow_root_cause_ratio{{{OF}}})", "{{reason}}"),),
        "percentunit",
        "Share of their time in which publishers were held, by what holds them in the end.",
        is_stacked=True,
    ),
    Panel(
        "Time held, by hop",
        (
            (
                "sum by (sender, receiver, reason) "
                f"(rate(penstock_flow_blocked_seconds_total{{{OF}}}{RATE}))",
                "{{sender}} -> {{receiver}}: {{reason}}",
            ),
        ),
        "short",
        "Senders that were held on average: 2 means two of them all the time, or four half of it.",
        is_stacked=True,
    ),
    Panel(
        "Publishers",
        ((f"sum by (state) (penstock_flow_publishers{{{OF}}})", "{{state}}"),),
        "none",
        "Connections that publish, by how much they are held.",
        is_stacked=True,
    ),
    Panel(
        "Work of actors",
        (
            (
                "sum by (stage) "
                f'(rate(penstock_flow_time_seconds_total{{{OF}, mode="busy"}}{RATE}))',
                "{{stage}}",
            ),
        ),
        "percentunit",
        "Processor time by kind of actor. Near 100 % together, the broker's core is the limit.",
        is_stacked=True,
    ),
    Panel(
        "Messages",
        (
            (f"sum(rate(rabbitmq_global_messages_received_total{{{OF}}}{RATE}))", "published"),
            (f"sum(rate(rabbitmq_global_messages_confirmed_total{{{OF}}}{RATE}))", "confirmed"),
            (f"sum(rate(rabbitmq_global_messages_delivered_total{{{OF}}}{RATE}))", "delivered"),
            (
                f"sum(rate(rabbitmq_global_messages_acknowledged_total{{{OF}}}{RATE}))",
                "acknowledged",
            ),
        ),
        "mps",
        "Published above delivered: queues grow. Delivered above acknowledged: windows fill.",
    ),
    Panel(
        "In queues",
        (
            (f"sum(rabbitmq_queue_messages_ready{{{OF}}})", "ready"),
            (f"sum(rabbitmq_queue_messages_unacked{{{OF}}})", "unacknowledged"),
            (f"sum(penstock_flow_debt_messages{{{OF}}})", "on their way"),
            (f"sum(penstock_flow_parked_messages{{{OF}}})", "parked"),
        ),
        "none",
        "Where messages are. Parked ones wait for a queue that takes nothing, beside the others.",
    ),
    Panel(
        "Memory",
        (
            (f"rabbitmq_process_resident_memory_bytes{{{OF}}}", "{{instance}} used"),
            (f"rabbitmq_resident_memory_limit_bytes{{{OF}}}", "{{instance}} alarm"),
        ),
        "bytes",
        "Publishers are stopped when used memory reaches the alarm.",
    ),
    Panel(
        "Disk",
        (
            (f"rate(rabbitmq_io_sync_total{{{OF}}}{RATE})", "{{instance}} syncs a second"),
            (
                f"1000 * rate(rabbitmq_io_sync_time_seconds_total{{{OF}}}{RATE}) "
                f"/ rate(rabbitmq_io_sync_total{{{OF}}}{RATE})",
                "{{instance}} ms a sync",
            ),
        ),
        "short",
        "A confirm of a persistent message waits for a sync. Above 100 ms the disk is in trouble.",
    ),
    Panel(
        "Message sizes",
        (
            (
                "histogram_quantile(0.5, sum by (le) "
                f"(rate(rabbitmq_message_size_bytes_bucket{{{OF}}}{RATE})))",
                "median",
            ),
            (
                "histogram_quantile(0.99, sum by (le) "
                f"(rate(rabbitmq_message_size_bytes_bucket{{{OF}}}{RATE})))",
                "p99",
            ),
        ),
        "bytes",
        "Bodies of publishes.",
    ),
    Panel(
        "Given up by queues",
        tuple(
            (
                f"sum(rate(rabbitmq_global_messages_dead_lettered_{reason}_total{{{OF}}}{RATE}))",
                reason,
            )
            for reason in ("expired", "maxlen", "rejected", "delivery_limit")
        ),
        "mps",
        "Messages that expired, were over a limit, or were rejected: dead letters, or gone.",
    ),
)


def drawn(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """One panel as Grafana has it."""
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        mode = "normal" if panel.is_stacked else "none"
        defaults["custom"] = {
            "fillOpacity": 30 if panel.is_stacked else 0,
            "stacking": {"mode": mode, "group": "A"},
        }
    return {
        "id": number,
        "title": panel.title,
        "description": panel.tip,
        "type": panel.kind,
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": SOURCE,
                "expr": query,
                "legendFormat": legend or "__auto",
            }
            for index, (query, legend) in enumerate(panel.queries)
        ],
    }


def board() -> dict[str, Any]:
    """The whole board: panels from left to right, in lines."""
    panels = []
    x = y = 0
    for number, panel in enumerate(PANELS, 1):
        panels.append(drawn(panel, number, x, y))
        x += panel.width
        if x >= WIDTH:
            x, y = 0, y + panel.height
    return {
        "uid": "penstock-flow",
        "title": "Penstock flow",
        "description": "Who is held by whom in a Penstock broker, and what holds them in the end.",
        "tags": ["penstock", "amqp"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "graphTooltip": 1,
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Data source",
                    "type": "datasource",
                    "query": "prometheus",
                },
                {
                    "name": "instance",
                    "label": "Broker",
                    "type": "query",
                    "datasource": SOURCE,
                    "query": "label_values(penstock_flow_publishers, instance)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": panels,
    }


def page() -> str:
    """The file."""
    return json.dumps(board(), indent=1) + "\n"


if __name__ == "__main__":
    print(page(), end="")
