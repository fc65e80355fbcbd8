"""Metrics for Prometheus, under the names that RabbitMQ's dashboards and alerts read, and ours.

    /metrics               sums over the node
    /metrics/per-object    the same, and each queue and connection
    /metrics/detailed      chosen families of objects: ?family=queue_coarse_metrics&vhost=/
    /metrics/flow          who is held by whom, by name, the most first
Every series of the dashboard is there from the start, also while it is 0: panels that add two
series vanish when one is missing. Source: RabbitMQ's dashboard 10991, rabbitmq_prometheus.
"""

import asyncio
import math
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from penstock import __version__
from penstock.management.broker_link import BrokerLink, Row

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PROTOCOL: Final = "amqp091"
QUEUE_TYPES: Final = {
    "classic": "rabbit_classic_queue",
    "quorum": "rabbit_quorum_queue",
    "stream": "rabbit_stream_queue",
}
LETTER_REASONS: Final = ("expired", "maxlen", "rejected", "delivery_limit")
STRATEGIES: Final = ("disabled", "at_most_once", "at_least_once")
SIZES: Final = (
    "100.0",
    "1000.0",
    "10000.0",
    "100000.0",
    "1e+06",
    "1e+07",
    "5e+07",
    "1e+08",
    "+Inf",
)
"""Bytes; readers compare these texts letter by letter."""
ROOTS: Final = (
    *("cpu", "consumer", "disk", "socket", "credit", "debt", "stuck", "slow", "rate", "flow"),
    *("alarm:memory", "alarm:disk", "waiting", "circle", "other"),
)
"""Reasons of root causes, see penstock.explain.explanation."""
ROOTS_S: Final = 5.0
FLOW_ROWS: Final = 200
FAMILIES: Final = ("queue_coarse_metrics", "queue_consumer_count", "connection_coarse_metrics")


class Told(Collector):
    """Families that were made already, as a collector."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self.families = list(families)

    def collect(self) -> Iterable[Metric]:
        return self.families


def written(families: Iterable[Metric]) -> bytes:
    """The text that Prometheus reads."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Told(families))
    return generate_latest(registry)


def gauge(
    name: str, help_: str, value: float, labels: Sequence[tuple[str, str]] = ()
) -> GaugeMetricFamily:
    """A gauge with one series."""
    family = GaugeMetricFamily(name, help_, labels=[key for key, _ in labels])
    family.add_metric([one for _, one in labels], float(value))
    return family


def counter(
    name: str, help_: str, value: float, labels: Sequence[tuple[str, str]] = ()
) -> CounterMetricFamily:
    """A counter with one series; `_total` is added to its name."""
    family = CounterMetricFamily(name, help_, labels=[key for key, _ in labels])
    family.add_metric([one for _, one in labels], float(value))
    return family


def _sizes(counts: list[int], total_bytes: int) -> HistogramMetricFamily:
    """The histogram of message sizes. counts: of each class of SIZES."""
    family = HistogramMetricFamily(
        "rabbitmq_message_size_bytes", "Size of messages received", labels=["protocol"]
    )
    named = list(zip(SIZES, accumulate(counts), strict=True))
    family.add_metric([PROTOCOL], named, sum_value=total_bytes)
    return family


COARSE: Final = {
    "queue_messages_ready": ("messages_ready", "Messages ready"),
    "queue_messages_unacked": ("messages_unacknowledged", "Messages unacknowledged"),
    "queue_messages": ("messages", "Messages ready and unacknowledged"),
    "queue_messages_bytes": ("message_bytes", "Bytes of messages"),
    "queue_process_memory_bytes": ("memory", "Memory of the queue"),
}
CONSUMERS: Final = {
    "queue_consumers": ("consumers", "Consumers"),
    "queue_consumer_capacity": (
        "consumer_capacity",
        "Share of time in which consumers can be given a message",
    ),
}
"""Metrics of queues: the field and the help of each."""


def _of_queues(rows: list[Row], prefix: str, parts: Sequence[str]) -> list[Metric]:
    wanted = (COARSE if "coarse" in parts else {}) | (CONSUMERS if "consumers" in parts else {})
    found: list[Metric] = []
    for name, (field, help_) in wanted.items():
        family = GaugeMetricFamily(prefix + name, help_, labels=["vhost", "queue"])
        for row in rows:
            family.add_metric([row["vhost"], row["name"]], float(row[field]))
        found.append(family)
    return found


def _of_connections(rows: list[Row], prefix: str) -> list[Metric]:
    found: list[Metric] = []
    for name, field, help_ in (
        ("connection_incoming_bytes", "recv_oct", "Bytes received on a connection"),
        ("connection_outgoing_bytes", "send_oct", "Bytes sent on a connection"),
    ):
        family = CounterMetricFamily(prefix + name, help_, labels=["connection"])
        for row in rows:
            family.add_metric([row["name"]], float(row[field]))
        found.append(family)
    channels = GaugeMetricFamily(
        prefix + "connection_channels", "Channels on a connection", labels=["connection"]
    )
    for row in rows:
        channels.add_metric([row["name"]], float(row["channels"]))
    return [*found, channels]


class Rising:
    """Counters that are summed over objects in steps may seem to fall by a few when one ends in
    between; a reader would take that for a restart. boot: a later one begins anew."""

    def __init__(self) -> None:
        self._uptime_ms = -1
        self._most: dict[str, float] = {}

    def of(self, key: str, value: float) -> float:
        """`value`, or what it was before if that is more."""
        most = max(value, self._most.get(key, 0.0))
        self._most[key] = most
        return most

    def look(self, uptime_ms: int) -> None:
        """Forget everything when the broker has started anew."""
        if uptime_ms < self._uptime_ms:
            self._most.clear()
        self._uptime_ms = uptime_ms


class Metrics:
    """Asks the broker, and writes what it says. version: of RabbitMQ, as clients are told."""

    def __init__(self, link: BrokerLink, version: str) -> None:
        self.link = link
        self.version = version
        self._rising = Rising()
        self._last_roots: Row = {}
        self._roots_until = 0.0

    async def node(self, endpoint: str) -> list[Metric]:
        """The families of the whole node. endpoint: aggregated, per-object or detailed."""
        node = await self.link.node()
        self._rising.look(node["uptime_ms"])
        roots = await self._roots(node)
        return [
            *self._identity(node, endpoint),
            *self._sums(node),
            *self._flow(node, roots),
            *self._totals(node["flow"]),
        ]

    def _identity(self, node: Row, endpoint: str) -> Iterator[Metric]:
        cluster = str(node["cluster_name"])
        yield gauge(
            "rabbitmq_identity_info",
            "RabbitMQ node & cluster identity info",
            1,
            (
                ("rabbitmq_node", str(node["node"])),
                ("rabbitmq_cluster", cluster),
                ("rabbitmq_cluster_permanent_id", cluster),
                ("rabbitmq_endpoint", endpoint),
            ),
        )
        yield gauge(
            "rabbitmq_build_info",
            "RabbitMQ & Erlang/OTP version info",
            1,
            (
                ("rabbitmq_version", self.version),
                ("erlang_version", f"python-{platform.python_version()}"),
                ("prometheus_client_version", "prometheus-client"),
                ("prometheus_plugin_version", self.version),
                ("product_name", "Penstock"),
                ("product_version", __version__),
            ),
        )
        yield gauge("rabbitmq_erlang_uptime_seconds", "Node uptime", node["uptime_ms"] / 1000)

    def _sums(self, node: Row) -> Iterator[Metric]:
        totals, counts, machine = node["totals"], node["counts"], node["machine"]
        of = self._rising.of
        for name in ("connections", "channels", "consumers", "queues"):
            yield gauge(f"rabbitmq_{name}", f"{name.capitalize()} currently open", totals[name])
        for name in ("connections_opened", "connections_closed"):
            yield counter(f"rabbitmq_{name}", name.replace("_", " "), counts[name])
        for name in ("channels_opened", "channels_closed"):
            yield counter(f"rabbitmq_{name}", name.replace("_", " "), counts[name])
        for name in ("queues_declared", "queues_created", "queues_deleted"):
            yield counter(f"rabbitmq_{name}", name.replace("_", " "), counts[name])
        ready, unacked = totals["messages_ready"], totals["messages_unacknowledged"]
        yield gauge("rabbitmq_queue_messages_ready", "Messages ready to be delivered", ready)
        yield gauge("rabbitmq_queue_messages_unacked", "Messages not yet acknowledged", unacked)
        yield gauge("rabbitmq_queue_messages", "Messages ready and unacked", ready + unacked)
        yield gauge("rabbitmq_process_resident_memory_bytes", "Memory used", machine["mem_used"])
        yield gauge(
            "rabbitmq_resident_memory_limit_bytes", "Memory high watermark", machine["mem_limit"]
        )
        yield gauge(
            "rabbitmq_disk_space_available_bytes", "Disk space available", machine["disk_free"]
        )
        yield gauge(
            "rabbitmq_disk_space_available_limit_bytes",
            "Free disk space low watermark",
            machine["disk_free_limit"],
        )
        yield gauge("rabbitmq_process_open_fds", "Open file descriptors", machine["fd_used"])
        yield gauge("rabbitmq_process_max_fds", "Open file descriptors limit", machine["fd_total"])
        yield gauge(
            "rabbitmq_alarms_memory_used_watermark", "Memory alarm", int(machine["mem_alarm"])
        )
        yield gauge(
            "rabbitmq_alarms_free_disk_space_watermark",
            "Disk alarm",
            int(machine["disk_free_alarm"]),
        )
        failed, opened = machine["login_failures"], counts["connections_opened"]
        yield counter("rabbitmq_auth_attempts", "Logins", failed + opened)
        yield counter("rabbitmq_auth_attempts_succeeded", "Logins that were right", opened)
        yield counter("rabbitmq_auth_attempts_failed", "Refused logins", failed)
        syncs = machine["syncs"]
        yield counter("rabbitmq_io_sync", "Syncs of files", of("syncs", syncs["count"]))
        yield counter(
            "rabbitmq_io_sync_time_seconds",
            "Time that syncs of files took",
            of("sync seconds", syncs["seconds"]),
        )
        yield gauge(
            "penstock_disk_sync_running_seconds",
            "For how long the oldest sync that has not ended has lasted",
            syncs["running_s"],
        )
        protocol = (("protocol", PROTOCOL),)
        yield gauge("rabbitmq_global_publishers", "Publishers", totals["publishers"], protocol)
        yield gauge("rabbitmq_global_consumers", "Consumers", totals["consumers"], protocol)
        for name, own, help_ in (
            ("received", "received", "Messages received from publishers"),
            ("received_confirm", "received_confirm", "The same, by channels with confirms"),
            ("routed", "routed", "Messages routed to queues or streams"),
            ("confirmed", "confirmed", "Messages confirmed to publishers"),
            ("unroutable_dropped", "dropped", "Messages without a route, dropped"),
            ("unroutable_returned", "returned", "Messages without a route, returned"),
        ):
            value = counts["unroutable"] - counts["returned"] if own == "dropped" else counts[own]
            yield counter(f"rabbitmq_global_messages_{name}", help_, of(name, value), protocol)
        yield from self._by_type(counts["by_type"])
        yield from self._dead_lettered(counts["dropped"])
        yield _sizes(counts["sizes"], counts["size_bytes"])

    def _by_type(self, by_type: dict[str, dict[str, int]]) -> Iterator[Metric]:
        for name, help_ in (
            ("delivered", "Messages delivered to consumers, or got"),
            ("delivered_consume_manual_ack", "Delivered to consumers that acknowledge"),
            ("delivered_consume_auto_ack", "Delivered to consumers that do not"),
            ("delivered_get_manual_ack", "Got by polling, to be acknowledged"),
            ("delivered_get_auto_ack", "Got by polling, without acknowledgement"),
            ("get_empty", "Polling that found an empty queue"),
            ("redelivered", "Messages redelivered"),
            ("acknowledged", "Messages acknowledged"),
        ):
            family = CounterMetricFamily(
                f"rabbitmq_global_messages_{name}", help_, labels=["protocol", "queue_type"]
            )
            for kind, shown in QUEUE_TYPES.items():
                passed = by_type[kind]
                others = passed["auto_delivered"] + passed["got"] + passed["auto_got"]
                value = {
                    "delivered": passed["delivered"],
                    "delivered_consume_manual_ack": passed["delivered"] - others,
                    "delivered_consume_auto_ack": passed["auto_delivered"],
                    "delivered_get_manual_ack": passed["got"],
                    "delivered_get_auto_ack": passed["auto_got"],
                    "get_empty": passed["got_empty"],
                    "redelivered": passed["redelivered"],
                    "acknowledged": passed["acked"],
                }[name]
                family.add_metric([PROTOCOL, shown], self._rising.of(f"{kind} {name}", value))
            yield family

    def _dead_lettered(self, dropped: list[Row]) -> Iterator[Metric]:
        """What queues gave up, by reason and how they give dead letters on."""
        found = {
            (one["reason"], one["queue_type"], one["strategy"]): one["count"] for one in dropped
        }
        for reason in LETTER_REASONS:
            family = CounterMetricFamily(
                f"rabbitmq_global_messages_dead_lettered_{reason}",
                f"Messages that left a queue by a dead letter's reason: {reason}",
                labels=["queue_type", "dead_letter_strategy"],
            )
            for kind, shown in QUEUE_TYPES.items():
                for strategy in STRATEGIES:
                    value = found.get((reason, kind, strategy), 0)
                    of = self._rising.of(f"{kind} {strategy} {reason}", value)
                    family.add_metric([shown, strategy], of)
            yield family

    async def _roots(self, node: Row) -> Row:
        """Share of their time that publishers were held in, by root cause. To find causes costs
        the broker 0.1 ms a connection, so they are looked for once in ROOTS_S at most, and in no
        more than a small share of its time."""
        found: Row = dict.fromkeys(ROOTS, 0.0)
        if not node["publishers"]["throttled"] and not node["publishers"]["blocked"]:
            return found
        if time.monotonic() < self._roots_until:
            return self._last_roots
        began = time.monotonic()
        answer = await self.link.ask({"op": "why", "kind": "publish", "name": "", "window_s": 10.0})
        told = answer["explanation"]
        for cause in told["causes"]:
            reason = cause["reason"] if cause["reason"] in found else "other"
            found[reason] += told["blocked_share"] * cause["share"]
        took_s = time.monotonic() - began
        self._roots_until = began + took_s + max(ROOTS_S, 20 * took_s)
        self._last_roots = found
        return found

    def _totals(self, flow: Row) -> Iterator[Metric]:
        """What flow control has done since the start."""
        blocked = CounterMetricFamily(
            "penstock_flow_blocked_seconds",
            "Time in which senders were held, added up over them",
            labels=["sender", "receiver", "reason"],
        )
        for row in flow["blocked"]:
            blocked.add_metric([row["sender"], row["receiver"], row["reason"]], row["seconds"])
        yield blocked
        stops = CounterMetricFamily(
            "penstock_flow_stops", "How often senders were held", labels=["sender"]
        )
        for sender, count in flow["stops"].items():
            stops.add_metric([sender], count)
        yield stops
        spent = CounterMetricFamily(
            "penstock_flow_time_seconds",
            "Time of actors that were busy, blocked or waiting; the rest they were idle",
            labels=["stage", "mode"],
        )
        for row in flow["spent"]:
            spent.add_metric([row["stage"], row["mode"]], row["seconds"])
        yield spent
        for name, help_ in (
            ("debt_messages", "Messages under way between two actors"),
            ("debt_bytes", "Bytes of them"),
            ("parked_messages", "Publishes kept aside for queues that take nothing"),
            ("parked_bytes", "Bytes of them in memory"),
            ("parked_disk_bytes", "Bytes of them on the disk"),
        ):
            yield gauge(f"penstock_flow_{name}", help_, flow[name])
        yield counter(
            "penstock_flow_stuck_hops",
            "Hops that stood still although their receiver had work",
            flow["stuck_hops"],
        )
        yield counter(
            "penstock_flow_lost_grants",
            "Hops that were mended after credit was lost: a fault of the broker",
            flow["lost_grants"],
        )
        alarm_in_s = flow["memory_alarm_in_s"]
        yield gauge(
            "penstock_flow_alarm_eta_seconds",
            "Until the alarm at the present rise, +Inf if none is coming",
            math.inf if alarm_in_s is None else alarm_in_s,
            (("resource", "memory"),),
        )

    def _flow(self, node: Row, roots: Row) -> Iterator[Metric]:
        publishers = GaugeMetricFamily(
            "penstock_flow_publishers",
            "Connections that publish: throttled ones were held for 5 % of the last 10 s",
            labels=["state"],
        )
        for state, count in node["publishers"].items():
            publishers.add_metric([state], count)
        yield publishers
        waiting = GaugeMetricFamily(
            "penstock_queues_waiting",
            "Queues with messages that no consumer is given, by why",
            labels=["reason"],
        )
        for reason, count in node["queues_waiting"].items():
            waiting.add_metric([reason], count)
        yield waiting
        causes = GaugeMetricFamily(
            "penstock_flow_root_cause_ratio",
            "Share of the last 10 s in which publishers were held, by root cause",
            labels=["reason"],
        )
        for reason, share in roots.items():
            causes.add_metric([reason], share)
        yield causes
        held = GaugeMetricFamily(
            "penstock_flow_held_ratio",
            "Share of the last 10 s in which senders were held, added up over them",
            labels=["sender", "receiver", "reason"],
        )
        for row in node["held"]:
            held.add_metric([row["sender"], row["receiver"], row["reason"]], row["seconds"] / 10.0)
        yield held
        expiry = GaugeMetricFamily(
            "penstock_tls_certificate_expiry_seconds",
            "Until the certificate of a port expires, below 0 once it has",
            labels=["port"],
        )
        for one in node["listeners"]:
            if one["certificate_s"] is not None:
                expiry.add_metric([str(one["port"])], one["certificate_s"])
        yield expiry
        yield counter(
            "penstock_scheduler_turns", "Turns that actors have had", node["machine"]["turns"]
        )
        yield counter(
            "penstock_recorder_events_dropped",
            "Flow events that the recorder had no room for",
            node["machine"]["events_dropped"],
        )

    # -- objects ---------------------------------------------------------------------------------

    async def per_object(self) -> list[Metric]:
        """The node, and each queue and connection in place of sums of the same name: a name that
        comes twice is refused by readers, and would count what is in queues twice."""
        found = [
            *await self.queues("rabbitmq_", [], ("coarse", "consumers")),
            *await self.connections("rabbitmq_", []),
        ]
        names = {one.name for one in found}
        return [*(one for one in await self.node("per-object") if one.name not in names), *found]

    async def detailed(self, families: list[str], vhosts: list[str]) -> list[Metric]:
        """Chosen families, of chosen virtual hosts, all for none; those that there are none of have
        nothing."""
        # By which dashboards choose the cluster of the others.
        found = list(self._identity(await self.link.node(), "detailed"))
        for family in dict.fromkeys(families):
            if family == "queue_coarse_metrics":
                found += await self.queues("rabbitmq_detailed_", vhosts, ("coarse",))
            elif family == "queue_consumer_count":
                found += await self.queues("rabbitmq_detailed_", vhosts, ("consumers",))
            elif family == "connection_coarse_metrics":
                found += await self.connections("rabbitmq_detailed_", vhosts)
        return found

    async def _rows(self, what: str, vhosts: list[str]) -> list[Row]:
        """Of those of `vhosts` that there are, of all for none."""
        if not vhosts:
            return await self.link.listing(what)
        there = set((await self.link.node())["vhosts"])
        found: list[Row] = []
        for vhost in dict.fromkeys(vhosts):
            if vhost in there:
                found += await self.link.listing(what, vhost=vhost)
        return found

    async def queues(self, prefix: str, vhosts: list[str], parts: Sequence[str]) -> list[Metric]:
        """Each queue of `vhosts`, all for none. parts: coarse, consumers."""
        rows = await self._rows("queues", vhosts)
        return await asyncio.to_thread(_of_queues, rows, prefix, parts)

    async def connections(self, prefix: str, vhosts: list[str]) -> list[Metric]:
        """Each connection to `vhosts`, all for none."""
        rows = await self._rows("connections", vhosts)
        return await asyncio.to_thread(_of_connections, rows, prefix)

    async def flow_rows(self) -> list[Metric]:
        """Who is held by whom, by name: the first FLOW_ROWS edges."""
        answer = await self.link.ask(
            {"op": "flow", "do": "edges", "limit": FLOW_ROWS, "sort": "blocked", "blocked": True}
        )
        family = GaugeMetricFamily(
            "penstock_flow_edge_blocked_seconds",
            "How long a sender has been held by a receiver until now",
            labels=["sender", "receiver", "by", "reason"],
        )
        for row in answer["edges"]:
            family.add_metric(
                [row["sender"], row["receiver"], row["by"], row["reason"]],
                row["blocked_for_ns"] / 1e9,
            )
        return [family]
