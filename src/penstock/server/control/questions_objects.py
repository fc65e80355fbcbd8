"""What the control socket answers about every object, in the rows of RabbitMQ's HTTP API.

One request is {"op": "objects", "do": "connections" | "channels" | "consumers" | "queues" |
"exchanges" | "bindings" | "node" | "login", "vhost": "", ...}. Listings go in steps; an object that
goes meanwhile is left out. They are what the management process shows, which sorts and pages them.
"""

import resource
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from penstock.base.errors import ConnectionFault, OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import object_rows as rows
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.users import FORCED
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.routing.exchange import Exchange
from penstock.server.control.request import Request
from penstock.server.net.sockets import SocketShell
from penstock.telemetry.actor_window import ActorWindow

WINDOW_S: Final = 10.0
STEP_ROWS: Final = 16
"""About 20 µs each."""
STEP_COUNTS: Final = 256
LOGIN_LOOK_S: Final = 0.005
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
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
        named = [one for one in broker.connections.values() if _given_name(broker, one) == name]
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
        found.append(rows.connection_row(broker, connection, windows, _wire(broker, connection)))
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


def vhosts(request: Request) -> dict[str, object]:
    """The names of virtual hosts."""
    return {"items": [{"name": name} for name in request.broker.vhosts]}


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
