"""What the control socket answers about every object, in the rows of RabbitMQ's HTTP API.

One request is {"op": "objects", "do": "connections" | "channels" | "consumers" | "queues" |
"exchanges" | "bindings" | "node" | "login", "vhost": "", ...}. Listings go in steps; an object that
goes meanwhile is left out. They are what the management process shows, which sorts and pages them.
"""

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

import penstock
from penstock.base.errors import ConnectionFault, OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import object_rows as rows
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.users import FORCED
from penstock.broker.alarm.alarm_manager import DISK, MEMORY
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.node_counts import NodeCounts, add_channel, add_queue
from penstock.protocol.sasl import Credentials
from penstock.routing.exchange import Exchange
from penstock.server.control.request import Request
from penstock.server.machine.build import build_words
from penstock.server.net.sockets import SocketShell
from penstock.telemetry.actor_window import ActorWindow

WINDOW_S: Final = 10.0
STEP_ROWS: Final = 16
"""About 20 µs each."""
STEP_COUNTS: Final = 256
LOGIN_LOOK_S: Final = 0.005
NS_PER_MS: Final = 1_000_000
PAGE_BYTES: Final = resource.getpagesize()

Windows = Mapping[str, ActorWindow]


# -- connections, channels, consumers ------------------------------------------------------------


def _wire(broker: Broker, connection: Connection) -> Row:
    """What its socket knows. Its name is RabbitMQ's: the peer's address, and ours."""
    peer_host, _, peer_port = connection.name.partition("#")[0].rpartition(":")
    row: Row = {
        "name": connection.name,
        "host": "",
        "port": 0,
        "peer_host": peer_host.strip("[]"),
        "peer_port": int(peer_port) if peer_port.isdecimal() else 0,
        "ssl": False,
        "recv_oct": 0,
        "send_oct": 0,
        "send_cnt": 0,
        "send_pend": int(connection.output.held_bytes),
    }
    shell = connection.shell
    if isinstance(shell, SocketShell):
        with suppress(OSError):
            host, port = shell.sock.getsockname()[:2]
            row |= {"host": host, "port": port, "name": f"{connection.name} -> {host}:{port}"}
        row |= {
            "ssl": shell.tls is not None,
            "recv_oct": shell.received_bytes,
            "send_oct": shell.output.sent_bytes,
        }
    negotiator = broker.negotiators.get(connection.name)
    if negotiator is not None and negotiator.tls_peer is not None:
        row |= {
            "ssl_protocol": negotiator.tls_peer.version,
            "ssl_cipher": negotiator.tls_peer.cipher,
            "peer_cert_subject": negotiator.tls_peer.subject,
        }
    return row


def _connections(request: Request) -> Iterator[Connection]:
    """Those asked for: of a virtual host, of a user, of a name, or all."""
    broker = request.broker
    vhost, user, name = request.vhost(), request.text("user"), request.text("name")
    if name != "":
        yield find_connection(broker, name)
        return
    for connection in list(broker.connections.values()):
        negotiator = broker.negotiators.get(connection.name)
        session = None if negotiator is None else negotiator.session
        if vhost != "" and (session is None or session.vhost.name != vhost):
            continue
        if user != "" and (session is None or session.user != user):
            continue
        yield connection


def find_connection(broker: Broker, name: str) -> Connection:
    """By its address, as RabbitMQ writes it, or by what its client called it.

    Raises: OperatorError."""
    found = broker.connections.get(name.partition(" -> ")[0])
    if found is None:
        named = [
            one
            for one in broker.connections.values()
            if _given_name(broker, one) == name
        ]
        if len(named) > 1:
            addresses = ", ".join(sorted(one.name for one in named)[:5])
            raise OperatorError(f"{len(named)} connections are called '{name}': {addresses}")
        found = named[0] if named else None
    if found is None:
        raise OperatorError(f"no connection '{name}'; `penstock connections` lists them")
    return found


def _given_name(broker: Broker, connection: Connection) -> object:
    negotiator = broker.negotiators.get(connection.name)
    return "" if negotiator is None else negotiator.client_properties.get("connection_name")


def connections(request: Request) -> Steps[dict[str, object]]:
    """Rows of connections, in steps."""
    broker, windows = request.broker, request.windows(WINDOW_S)
    found: list[Row] = []
    for connection in _connections(request):
        found.append(
            rows.connection_row(broker, connection, windows, _wire(broker, connection))
        )
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return {"items": found}


def channels(request: Request) -> Steps[dict[str, object]]:
    """Rows of channels, in steps; of one connection by its `name`."""
    broker, windows = request.broker, request.windows(WINDOW_S)
    found: list[Row] = []
    for connection in _connections(request):
        wire = _wire(broker, connection)
        for channel in list(connection.channels.values()):
            found.append(rows.channel_row(broker, connection, channel, windows, wire))
            if len(found) % STEP_ROWS == 0:
                yield 0.0
    return {"items": found}


def consumers(request: Request) -> Steps[dict[str, object]]:
    """Rows of consumers, in steps."""
    found: list[Row] = []
    for queue in _queues(request.broker, request.vhost()):
        for row in consumer_rows(request.broker, queue):
            found.append(row)
            if len(found) % STEP_ROWS == 0:
                yield 0.0
    return {"items": found}


def consumer_rows(broker: Broker, queue: QueueActor) -> Iterator[Row]:
    """The consumers of one queue."""
    timeout_ms = int(broker.consumer_timeout.timeout_ms)
    for consumer in list(queue.consumers):
        name = consumer.holder.removeprefix("conn:")
        connection = broker.connections.get(name)
        if connection is None:
            continue
        negotiator = broker.negotiators.get(name)
        session = None if negotiator is None else negotiator.session
        user = "" if session is None else session.user
        wire = _wire(broker, connection)
        yield rows.consumer_row(queue, consumer, wire, user, broker.node_name, timeout_ms)


# -- queues, exchanges, bindings -----------------------------------------------------------------


def _queues(broker: Broker, vhost: str) -> list[QueueActor]:
    """Those that clients may name; the stores of delayed message exchanges are none."""
    places = [vhost] if vhost != "" else list(broker.vhosts)
    return [
        actor
        for place in places
        for actor in broker.queues_in(place)
        if not broker.vhosts[place].is_internal(actor.name)
    ]


def queues(request: Request) -> Steps[dict[str, object]]:
    """Rows of queues, in steps; one of them, with its consumers, by its `name`."""
    broker, windows = request.broker, request.windows(WINDOW_S)
    vhost, name = request.vhost(), request.text("name")
    if name != "":
        actor = broker.vhosts[vhost or "/"].queues.get(name)
        if actor is None:
            return {"items": []}
        row = rows.queue_row(broker, actor, windows, _owner(broker, actor))
        told: list[Row] = []
        for one in consumer_rows(broker, actor):
            told.append(one)
            if len(told) >= rows.CONSUMER_DETAILS_MAX:
                break
            if len(told) % STEP_ROWS == 0:
                yield 0.0
        row |= {"consumer_details": told, "incoming": [], "deliveries": []}
        return {"items": [row]}
    found: list[Row] = []
    for actor in _queues(broker, vhost):
        found.append(rows.queue_row(broker, actor, windows, _owner(broker, actor)))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return {"items": found}


def _owner(broker: Broker, actor: QueueActor) -> str:
    connection = broker.connections.get(actor.owner.removeprefix("conn:"))
    return "" if connection is None else str(_wire(broker, connection)["name"])


def exchanges(request: Request) -> Steps[dict[str, object]]:
    """Rows of exchanges, in steps."""
    vhost, name = request.vhost(), request.fields.get("name")
    found: list[Row] = []
    for place in [vhost] if vhost != "" else list(request.broker.vhosts):
        there = request.broker.vhosts.get(place)
        for exchange in () if there is None else there.router.exchanges():
            if name is None or exchange.name == name:
                found.append(rows.exchange_row(place, exchange))
            if len(found) % STEP_ROWS == 0:
                yield 0.0
    return {"items": found}


def bindings(request: Request) -> Steps[dict[str, object]]:
    """Rows of bindings, in steps: all of a virtual host or of the node, of a `source`, or of a
    `destination` of the kind `destination_type`. Every queue is bound to the default exchange by
    its name, which is listed as RabbitMQ lists it."""
    broker = request.broker
    vhost = request.vhost()
    source, destination = request.fields.get("source"), request.fields.get("destination")
    of_exchange = request.text("destination_type", "queue") == "exchange"
    found: list[Row] = []
    for place in [vhost] if vhost != "" else list(broker.vhosts):
        there = broker.vhosts.get(place)
        if there is None:
            continue
        sources = (one for one in there.router.exchanges() if source in (None, one.name))
        for index, exchange in enumerate(sources):
            for binding in list(exchange.bindings()) if exchange.name else ():
                kind = isinstance(binding.destination, Exchange)
                wanted = destination is None or (
                    binding.destination.name == destination and kind == of_exchange
                )
                if wanted:
                    found.append(rows.binding_row(place, exchange, binding))
                if len(found) % STEP_ROWS == 0:
                    yield 0.0
            if index % STEP_COUNTS == 0:
                yield 0.0
        if source in (None, "") and not (destination is not None and of_exchange):
            for actor in _queues(broker, place):
                if destination in (None, actor.name):
                    found.append(_default_binding(place, actor.name))
                if len(found) % STEP_COUNTS == 0:
                    yield 0.0
    return {"items": found}


def _default_binding(vhost: str, queue: str) -> Row:
    return {
        "source": "",
        "vhost": vhost,
        "destination": queue,
        "destination_type": "queue",
        "routing_key": queue,
        "arguments": {},
        "properties_key": rows.properties_key(queue, {}),
    }


# -- the node ------------------------------------------------------------------------------------


def node(request: Request) -> Steps[dict[str, object]]:
    """The node and all that is counted on it, in steps."""
    broker = request.broker
    counts = broker.counts.copy()
    totals = {
        "connections": 0,
        "channels": 0,
        "exchanges": 0,
        "queues": 0,
        "consumers": 0,
        "publishers": 0,
        "messages_ready": 0,
        "messages_unacknowledged": 0,
    }
    states: dict[str, int] = {}
    now_ns = broker.clock.monotonic_ns()
    for index, connection in enumerate(list(broker.connections.values()), 1):
        negotiator = broker.negotiators.get(connection.name)
        if negotiator is None or negotiator.session is None:
            continue
        totals["connections"] += 1
        state = connection.state(now_ns)
        states[state] = states.get(state, 0) + 1
        for channel in list(connection.channels.values()):
            totals["channels"] += 1
            totals["publishers"] += int(channel.publisher.publish_count > 0)
            add_channel(counts, channel)
        if index % STEP_COUNTS == 0:
            yield 0.0
    kinds: dict[str, dict[str, int]] = {}
    for vhost in list(broker.vhosts.values()):
        totals["exchanges"] += len(vhost.router.exchanges())
        for index, actor in enumerate(list(vhost.queues.values()), 1):
            add_queue(counts, actor)
            if not vhost.is_internal(actor.name):
                totals["queues"] += 1
            totals["consumers"] += len(actor.consumers)
            totals["messages_ready"] += int(actor.messages.ready_count())
            totals["messages_unacknowledged"] += int(actor.unacked_count)
            kind = kinds.setdefault(rows.type_of(actor.arguments), {})
            for name, value in rows.queue_counts(actor).items():
                kind[name] = kind.get(name, 0) + value
            if index % STEP_COUNTS == 0:
                yield 0.0
    windows = request.windows(WINDOW_S)
    yield 0.0
    rates: dict[str, float] = {}
    for index, (identity, window) in enumerate(windows.items(), 1):
        if window.kind in ("conn", "queue"):
            for name in ("published", "confirmed", "delivered", "acked", "redelivered"):
                key = f"{window.kind}:{name}"
                rates[key] = rates.get(key, 0.0) + window.rates.get(name, 0.0)
        if index % STEP_COUNTS == 0:
            yield 0.0
        del identity
    return {
        "node": broker.node_name,
        "version": penstock.__version__,
        "build": build_words(),
        "profile": broker.profile.name,
        "uptime_ms": (broker.clock.monotonic_ns() - broker.started_ns) // NS_PER_MS,
        "totals": totals,
        "states": states,
        "counts": {name: getattr(counts, name) for name in NodeCounts.__slots__},
        "by_type": kinds,
        "rates": rates,
        "machine": _machine(broker),
        "vhosts": list(broker.vhosts),
    }


def _machine(broker: Broker) -> Row:
    """This process, and the marks of its alarms."""
    levels = broker.alarm_manager.levels
    disk, memory = levels.get(DISK), levels.get(MEMORY)
    alarms = broker.alarm_manager.alarms.resources()
    return {
        "os_pid": str(os.getpid()),
        "processors": os.cpu_count() or 1,
        "fd_used": len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,
        "fd_total": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "mem_used": broker.memory_used_bytes,
        "mem_limit": broker.memory_high_bytes if memory is None else memory.limit_bytes,
        "mem_alarm": MEMORY in alarms,
        "disk_free": 0 if disk is None else disk.now_bytes,
        "disk_free_limit": 0 if disk is None else disk.limit_bytes,
        "disk_free_alarm": DISK in alarms,
        "failure": broker.stores.failure,
        "turns": int(broker.scheduler.turns),
        "events_dropped": int(broker.recorder.dropped),
        "login_failures": broker.guessing.failed_count,
    }


# -- logins --------------------------------------------------------------------------------------


def login(request: Request) -> Steps[dict[str, object]]:
    """Whether `user` with `password` may come in from `address`: his tags and the virtual hosts
    that he may use, or why not. Guessing is answered as late as over AMQP."""
    broker = request.broker
    name, address = request.text("user"), request.text("address")
    given = Credentials(name, request.text("password"))
    said: list[str] = []
    broker.access.judge(given, address, said.append)
    while not said:
        yield LOGIN_LOOK_S
    if said[0] != "":
        answer = broker.guessing.failed(address, name, broker.clock.monotonic_ns())
        if answer.is_said:
            broker.log.warning(f"HTTP from {address}: {said[0]}")
            broker.host.audit.note(name, address, "login refused", "", {"over": "http"})
        yield answer.delay_ns / 1_000_000_000
        return {"refused": said[0]}
    user = broker.access.users.get(name)
    if user is None:
        return {"refused": f"user '{name}' is gone"}
    vhosts = [one for one in list(broker.vhosts) if broker.permissions.of(name, one) is not None]
    return {"user": name, "tags": list(user.tags), "vhosts": vhosts}


# -- closing -------------------------------------------------------------------------------------


def close_connection(request: Request) -> dict[str, object]:
    """Close one connection, with 320 and the reason that is given."""
    broker = request.broker
    connection = find_connection(broker, request.text("name"))
    reason = request.text("reason", "closed by an operator")
    negotiator = broker.negotiators.get(connection.name)
    if negotiator is not None:
        negotiator.close(connection, ConnectionFault(FORCED, reason))
    request.run_soon()
    return {"said": f"connection '{connection.name}' is closed: {reason}"}
