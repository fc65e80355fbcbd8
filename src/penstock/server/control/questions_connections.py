"""What the control socket answers about connections.

One request is {"op": "connections", "do": "list", ...}.
"""

from typing import Final

from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import ConnectionListing, ConnectionRow
from penstock.broker.broker import Broker
from penstock.broker.connection.connection import Connection
from penstock.explain.naming import client_name
from penstock.server.control.request import Keyed, Request

STEP_ROWS: Final = 128


def listing(request: Request) -> Steps[Keyed]:
    """A ConnectionListing by address, those that have opened no virtual host included; in steps."""
    broker, vhost, pager = request.broker, request.vhost(), request.pager()
    for count, one in enumerate(list(broker.connections.values()), 1):
        if vhost in ("", _vhost_of(broker, one)):
            pager.offer((one.name,), one)
        if count % STEP_ROWS == 0:
            yield 0.0
    rows: list[ConnectionRow] = []
    for one in pager.rows():
        rows.append(_row(broker, one))
        if len(rows) % STEP_ROWS == 0:
            yield 0.0
    return request.keyed(ConnectionListing(rows, pager.total, pager.next()), pager)


def _vhost_of(broker: Broker, connection: Connection) -> str:
    negotiator = broker.negotiators.get(connection.name)
    session = None if negotiator is None else negotiator.session
    return "" if session is None else session.vhost.name


def _row(broker: Broker, connection: Connection) -> ConnectionRow:
    negotiator = broker.negotiators.get(connection.name)
    session = None if negotiator is None else negotiator.session
    return ConnectionRow(
        name=connection.name,
        called="" if negotiator is None else client_name(negotiator.client_properties),
        user="" if session is None else session.user,
        vhost="" if session is None else session.vhost.name,
        state=connection.state(broker.clock.monotonic_ns()),
        channels=len(connection.channels),
    )
