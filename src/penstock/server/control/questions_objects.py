"""What the control socket answers about every object, in the rows of RabbitMQ's HTTP API.

One request is {"op": "objects", "do": "connections" | "channels" | "consumers" | "queues" |
"exchanges" | "bindings" | "vhosts", "vhost": "", ...}. Listings come in pages and go in steps. They
are what the management process shows, which sorts them as it is asked to.
"""

import resource
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from penstock.base.errors import ConnectionFault, OperatorError
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin import object_rows as rows
from penstock.broker.admin.definitions_rows import Row
from penstock.broker.admin.paging import Key, Pager
from penstock.broker.admin.users import FORCED
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.broker.queue.queue_actor import QueueActor
from penstock.queues.consumers import Consumer
from penstock.routing.exchange import Exchange
from penstock.server.control.request import Keyed, Request
from penstock.server.net.sockets import SocketShell

WINDOW_S: Final = 10.0
STEP_ROWS: Final = 8
"""About 50 µs each."""
STEP_OFFERS: Final = 128
LOGIN_LOOK_S: Final = 0.005
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
PAGE_BYTES: Final = resource.getpagesize()


# -- connections, channels, consumers ------------------------------------------------------------


def _wire(broker: Broker, connection: Connection) -> Row:
    """What its socket knows. Its name is RabbitMQ's: the peer's address, and ours."""
    peer_host, _, peer_port = connection.name.partition("#")[0].rpartition(":")
    given = _given_name(broker, connection)
    row: Row = {
        "name": connection.name,
        "user_provided_name": given if isinstance(given, str) else "",
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
            if shell.sock.family != socket.AF_UNIX:
                host, port = shell.sock.getsockname()[:2]
                row |= {"host": host, "port": port, "name": f"{connection.name} -> {host}:{port}"}
        row |= {
            "recv_oct": shell.received_bytes,
            "send_oct": shell.output.sent_bytes,
        }
    negotiator = broker.negotiators.get(connection.name)
    if negotiator is not None and negotiator.tls_peer is not None and not negotiator.is_operator:
        # His TLS may end at another node.
        row |= {
            "ssl": True,
            "ssl_protocol": negotiator.tls_peer.version,
            "ssl_cipher": negotiator.tls_peer.cipher,
            "peer_cert_subject": negotiator.tls_peer.subject,
        }
    return row


def _connections(request: Request) -> Steps[Iterable[Connection | None]]:
    """Those asked for: of a virtual host, of a user, of a name, or all. None is in the place of one
    that is not meant, so that a step ends among those, too."""
    name = request.text("name")
    if name != "":
        return [(yield from find_connection(request.broker, name))]
    return _meant(request.broker, request.vhost(), request.text("user"))


def _meant(broker: Broker, vhost: str, user: str) -> Iterator[Connection | None]:
    for connection in list(broker.connections.values()):
        negotiator = broker.negotiators.get(connection.name)
        session = None if negotiator is None else negotiator.session
        is_meant = vhost == "" or (session is not None and session.vhost.name == vhost)
        is_meant = is_meant and (user == "" or (session is not None and session.user == user))
        yield connection if is_meant else None


def find_connection(broker: Broker, name: str) -> Steps[Connection]:
    """By its address, as RabbitMQ writes it, or by what its client called it. In steps.

    Raises: OperatorError."""
    found = broker.connections.get(name.partition(" -> ")[0])
    if found is not None:
        return found
    named = yield from _called(broker, name)
    if not named:
        raise OperatorError(f"no connection '{name}'; `penstock connections` lists them")
    if len(named) > 1:
        addresses = ", ".join(sorted(one.name for one in named)[:5])
        raise OperatorError(f"{len(named)} connections are called '{name}': {addresses}")
    return named[0]


def _called(broker: Broker, name: str) -> Steps[list[Connection]]:
    """Those whose client calls them so."""
    named: list[Connection] = []
    for looked, connection in enumerate(list(broker.connections.values()), 1):
        if looked % STEP_OFFERS == 0:
            yield 0.0
        if _given_name(broker, connection) == name:
            named.append(connection)
    return named


def seek_connection(request: Request) -> Steps[dict[str, object]]:
    """The addresses that a name may mean: `whole` if it is one, `bare` if clients are called so. In
    steps."""
    name = request.text("name")
    found = request.broker.connections.get(name.partition(" -> ")[0])
    if found is not None:
        return {"whole": [found.name], "bare": []}
    named = yield from _called(request.broker, name)
    return {"whole": [], "bare": [one.name for one in named]}


def _given_name(broker: Broker, connection: Connection) -> object:
    negotiator = broker.negotiators.get(connection.name)
    return "" if negotiator is None else negotiator.client_properties.get("connection_name")


def connections(request: Request) -> Steps[Keyed]:
    """A page of connections, in steps."""
    broker, windows, pager = request.broker, request.history.finding(WINDOW_S), request.pager()
    for looked, one in enumerate((yield from _connections(request)), 1):
        if one is not None:
            pager.offer((one.name,), one)
        if looked % STEP_OFFERS == 0:
            yield 0.0
    found: list[Row] = []
    for connection in pager.rows():
        found.append(rows.connection_row(broker, connection, windows, _wire(broker, connection)))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found)


def channels(request: Request) -> Steps[Keyed]:
    """A page of channels, in steps; of one connection by its `name`."""
    broker, windows, pager = request.broker, request.history.finding(WINDOW_S), request.pager()
    for looked, one in enumerate((yield from _connections(request)), 1):
        if looked % STEP_OFFERS == 0:
            yield 0.0
        if one is None:
            continue
        for channel in list(one.channels.values()):
            pager.offer((one.name, int(channel.number)), (one, channel))
            if pager.total % STEP_OFFERS == 0:
                yield 0.0
    found: list[Row] = []
    for connection, channel in pager.rows():
        wire = _wire(broker, connection)
        found.append(rows.channel_row(broker, connection, channel, windows, wire))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found)


def consumers(request: Request) -> Steps[Keyed]:
    """A page of consumers, in steps."""
    broker, pager = request.broker, request.pager()
    for looked, queue in enumerate(_queues(broker, request.vhost()), 1):
        if looked % STEP_OFFERS == 0:
            yield 0.0
        for consumer in list(queue.consumers):
            place = (queue.vhost, queue.name, consumer.tag, consumer.holder)
            pager.offer(place, (queue, consumer))
            if pager.total % STEP_OFFERS == 0:
                yield 0.0
    found: list[Row] = []
    keys: list[Key] = []
    for index, (key, (queue, consumer)) in enumerate(pager.placed(), 1):
        found += consumer_rows(broker, queue, [consumer])
        keys += [key] * (len(found) - len(keys))
        if index % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found, keys)


def _page(
    request: Request, pager: Pager[Any], items: list[Row], keys: list[Key] | None = None
) -> Keyed:
    """keys: places of `items`, None where the whole page is there."""
    page: dict[str, object] = {"items": items, "total": pager.total, "next": pager.next()}
    return request.keyed(page, pager, keys)


def consumer_rows(broker: Broker, queue: QueueActor, consumers: list[Consumer]) -> Iterator[Row]:
    """Those of `consumers`, of one queue, whose connection is still there."""
    timeout_ms = int(broker.consumer_timeout.timeout_ms)
    for consumer in consumers:
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


def _queues(broker: Broker, vhost: str) -> Iterator[QueueActor]:
    """Those that clients may name; the stores of delayed message exchanges are none. One by one:
    of very many only as many are looked at in a step as it asks for."""
    for place in [vhost] if vhost != "" else list(broker.vhosts):
        for actor in broker.queues_in(place):
            there = broker.vhosts.get(place)
            if there is not None and not there.is_internal(actor.name):
                yield actor


def queues(request: Request) -> Steps[Keyed]:
    """A page of queues, in steps; one of them, with its consumers, by its `name`."""
    broker, windows = request.broker, request.history.finding(WINDOW_S)
    vhost, name = request.vhost(), request.text("name")
    if name != "":
        return (yield from _one_queue(broker, vhost or "/", name, windows))
    pager = request.pager()
    for actor in _queues(broker, vhost):
        pager.offer((actor.vhost, actor.name), actor)
        if pager.total % STEP_OFFERS == 0:
            yield 0.0
    found: list[Row] = []
    for actor in pager.rows():
        found.append(rows.queue_row(broker, actor, windows, _owner(broker, actor)))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found)


def _one_queue(
    broker: Broker, vhost: str, name: str, windows: rows.Windows
) -> Steps[dict[str, object]]:
    actor = broker.vhosts[vhost].queues.get(name)
    if actor is None:
        return {"items": [], "total": 0, "next": ""}
    row = rows.queue_row(broker, actor, windows, _owner(broker, actor))
    told: list[Row] = []
    for consumer in list(islice(actor.consumers, rows.CONSUMER_DETAILS_MAX)):
        told += consumer_rows(broker, actor, [consumer])
        if len(told) % STEP_ROWS == 0:
            yield 0.0
    row |= {"consumer_details": told, "incoming": [], "deliveries": []}
    return {"items": [row], "total": 1, "next": ""}


def _owner(broker: Broker, actor: QueueActor) -> str:
    connection = broker.connections.get(actor.owner.removeprefix("conn:"))
    return "" if connection is None else str(_wire(broker, connection)["name"])


def exchanges(request: Request) -> Steps[Keyed]:
    """A page of exchanges, in steps."""
    broker, pager = request.broker, request.pager()
    name = request.fields.get("name")
    looked = 0
    for place in _places(request):
        for exchange in broker.vhosts[place].router.exchanges() if place in broker.vhosts else ():
            looked += 1
            if name is None or exchange.name == name:
                pager.offer((place, exchange.name), (place, exchange))
            if looked % STEP_OFFERS == 0:
                yield 0.0
    found: list[Row] = []
    keys: list[Key] = []
    for key, (place, exchange) in pager.placed():
        if place not in broker.vhosts:
            continue
        keys.append(key)
        found.append(rows.exchange_row(broker, place, exchange))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found, keys)


def _places(request: Request) -> list[str]:
    vhost = request.vhost()
    return [vhost] if vhost != "" else list(request.broker.vhosts)


def bindings(request: Request) -> Steps[Keyed]:
    """A page of bindings, in steps: all of a virtual host or of the node, of a `source`, or of a
    `destination` of the kind `destination_type`. Every queue is bound to the default exchange by
    its name, which is listed as RabbitMQ lists it."""
    broker, pager = request.broker, request.pager()
    source, destination = request.fields.get("source"), request.fields.get("destination")
    of_exchange = request.text("destination_type", "queue") == "exchange"
    looked = 0
    for place in _places(request):
        there = broker.vhosts.get(place)
        exchanges = () if there is None else there.router.exchanges()
        for exchange in [one for one in exchanges if one.name and source in (None, one.name)]:
            for binding in list(exchange.bindings()):
                looked += 1
                if looked % STEP_OFFERS == 0:
                    yield 0.0
                kind = isinstance(binding.destination, Exchange)
                if destination is None or (
                    binding.destination.name == destination and kind == of_exchange
                ):
                    key = (place, exchange.name, binding.destination.name, binding.routing_key)
                    pager.offer((*key, binding.identity), (place, exchange, binding))
        if source in (None, "") and not (destination is not None and of_exchange):
            for actor in _queues(broker, place):
                looked += 1
                if looked % STEP_OFFERS == 0:
                    yield 0.0
                if destination in (None, actor.name):
                    pager.offer((place, "", actor.name, actor.name, ""), (place, None, actor.name))
    found: list[Row] = []
    for place, exchange, what in pager.rows():
        if exchange is None:
            found.append(_default_binding(place, what))
        else:
            found.append(rows.binding_row(place, exchange, what))
        if len(found) % STEP_ROWS == 0:
            yield 0.0
    return _page(request, pager, found)


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


def close_connection(request: Request) -> Steps[dict[str, object]]:
    """Close one connection, with 320 and the reason that is given. In steps."""
    broker = request.broker
    connection = yield from find_connection(broker, request.text("name"))
    reason = request.text("reason", "closed by an operator")
    negotiator = broker.negotiators.get(connection.name)
    if negotiator is not None:
        negotiator.close(connection, ConnectionFault(FORCED, reason))
    request.run_soon()
    return {"said": f"connection '{connection.name}' is closed: {reason}"}
