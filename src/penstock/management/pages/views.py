"""Pages of what RabbitMQ has too: overview, connections, channels, exchanges, queues, streams and
nodes, and the search in all of them."""

import asyncio
from typing import Any, Final

from starlette.responses import Response

from penstock.base.shown_names import shown_name, vhost_and_name
from penstock.management.broker_link import Row
from penstock.management.listing import shaped
from penstock.management.pages.flow_views import flow_of_node, why_or_none
from penstock.management.pages.samples import NODE
from penstock.management.pages.visit import View, Visit
from penstock.management.resources import connections as api_connections
from penstock.management.resources import exchanges as api_exchanges
from penstock.management.resources import flow as api_flow
from penstock.management.resources import overview as api_overview
from penstock.management.resources import queues as api_queues
from penstock.management.resources import users as api_users
from penstock.routing.factory import EXCHANGE_KINDS

FOUND_MAX: Final = 20
"""Of each kind that a search shows."""
ROWS_MAX: Final = 200
"""Of bindings and channels that the page of one object shows."""
WORDS_MAX: Final = 200
"""Letters of a search."""


async def home(visit: Visit) -> Response:
    """What goes on, and what holds it up."""
    overview: Row = await visit.api(api_overview.overview)
    sees_all = visit.visitor.sees_all
    points = await visit.shared.history.of(NODE) if sees_all else []
    flow = await flow_of_node(visit) if sees_all else None
    return await visit.page("home.html", overview=overview, points=points, flow=flow)


# -- connections and channels --------------------------------------------------------------------


async def connections(visit: Visit) -> Response:
    listing = await visit.listed(api_connections.connections)
    return await visit.page("connections.html", listing=listing)


async def connection(visit: Visit) -> Response:
    """One connection: its rates, its channels, and why it waits."""
    name = visit.asked("name")
    row: Row = await visit.api(api_connections.one, {"name": name})
    row["shown"] = row["user_provided_name"] or row["name"].partition(" -> ")[0]
    channels = await visit.api(api_connections.channels_of_connection, {"name": row["name"]})
    # A name that two clients share is no answer; the address is.
    why = await why_or_none(visit, "connection", row["name"].partition(" -> ")[0])
    points = await visit.shared.history.of(("connection", "", row["name"]))
    return await visit.page(
        "connection.html",
        row=row,
        channels=channels[:ROWS_MAX],
        channels_more=max(0, len(channels) - ROWS_MAX),
        why=why,
        points=points,
    )


async def channels(visit: Visit) -> Response:
    listing = await visit.listed(api_connections.channels)
    return await visit.page("channels.html", listing=listing)


async def channel(visit: Visit) -> Response:
    row: Row = await visit.api(api_connections.one_channel, {"name": visit.asked("name")})
    of = row["connection_details"]
    called = of["user_provided_name"] or of["name"].partition(" -> ")[0]
    why = await why_or_none(visit, "channel", f"{called}/{row['number']}")
    consumers = [
        one
        for one in await visit.api(api_connections.consumers)
        if one["channel_details"]["name"] == row["name"]
    ]
    return await visit.page("channel.html", row=row, why=why, consumers=consumers[:ROWS_MAX])


# -- exchanges -----------------------------------------------------------------------------------


async def exchanges(visit: Visit) -> Response:
    listing = await visit.listed(api_exchanges.exchanges)
    vhosts = await vhost_names(visit)
    return await visit.page("exchanges.html", listing=listing, vhosts=vhosts, kinds=EXCHANGE_KINDS)


async def exchange(visit: Visit) -> Response:
    """One exchange: what is bound to it, and a form to publish."""
    vhost, name = visit.asked("vhost", "/"), visit.asked("name")
    where = {"vhost": vhost, "exchange": name or api_exchanges.DEFAULT}
    row: Row = await visit.api(api_exchanges.one, where)
    # Every queue is bound to the default exchange.
    outgoing = await visit.api(api_exchanges.from_source, where) if name else []
    incoming = await visit.api(api_exchanges.to_destination, where) if name else []
    return await visit.page(
        "exchange.html",
        row=row,
        outgoing=outgoing[:ROWS_MAX],
        outgoing_more=max(0, len(outgoing) - ROWS_MAX),
        incoming=incoming[:ROWS_MAX],
    )


# -- queues and streams --------------------------------------------------------------------------


async def queues(visit: Visit) -> Response:
    listing = await visit.listed(api_queues.queues)
    return await visit.page("queues.html", listing=listing, vhosts=await vhost_names(visit))


async def queue(visit: Visit) -> Response:
    """One queue: rates, depth, consumers, bindings, and why it waits."""
    return await queue_page(visit, visit.asked("vhost", "/"), visit.asked("name"))


async def queue_page(
    visit: Visit, vhost: str, name: str, messages: list[Row] | None = None
) -> Response:
    """messages: that were just taken out, None where nobody has asked."""
    where = {"vhost": vhost, "queue": name}
    row: Row = await visit.api(api_queues.one, where)
    bindings = await visit.api(api_queues.bindings, where)
    actor = shown_name(vhost, name)
    points = await visit.shared.history.of(("queue", vhost, name))
    return await visit.page(
        "queue.html",
        row=row,
        bindings=bindings[:ROWS_MAX],
        bindings_more=max(0, len(bindings) - ROWS_MAX),
        why=await why_or_none(visit, "queue", actor),
        points=points,
        messages=messages,
    )


async def streams(visit: Visit) -> Response:
    """Queues of the kind stream, and who reads them."""
    rows = [row for row in await visit.api(api_queues.queues) if row["type"] == "stream"]
    readers: Row = {"readers": []}
    if visit.visitor.sees_all:
        readers = await visit.shared.samples.ask({"op": "queues", "do": "readers", "limit": 200})
    # Rows name a queue with its virtual host, addresses have one for each.
    found = [row | {"place": vhost_and_name(row["queue"])} for row in readers["readers"]]
    wanted = {"page": "1", "page_size": "500"} | _page_of(visit)
    listing = await shaped(rows, wanted, ("vhost", "name"))
    return await visit.page("streams.html", listing=listing, readers=found)


def _page_of(visit: Visit) -> dict[str, str]:
    wanted = {key: visit.asked(key) for key in ("page", "name", "sort", "sort_reverse")}
    return {key: value for key, value in wanted.items() if value != ""}


# -- nodes, search -------------------------------------------------------------------------------


async def nodes(visit: Visit) -> Response:
    rows = await visit.api(api_overview.nodes)
    overview = await visit.api(api_overview.overview)
    cluster = await visit.api(api_flow.cluster)
    return await visit.page("nodes.html", rows=rows, overview=overview, cluster=cluster)


async def vhost_names(visit: Visit) -> list[str]:
    """Those the visitor sees."""
    node = await visit.shared.services.link.node()
    return sorted(name for name in node["vhosts"] if visit.visitor.sees(name))


async def search(visit: Visit) -> Response:
    """Objects whose name has what is asked for."""
    wanted = visit.asked("q").strip()[:WORDS_MAX]
    found: list[tuple[str, Row]] = []
    if wanted:
        query = {"name": wanted, "page": "1", "page_size": str(FOUND_MAX)}
        kinds: dict[str, Any] = {
            "queues": api_queues.queues,
            "exchanges": api_exchanges.exchanges,
            "virtual hosts": api_users.vhosts,
        }
        if visit.visitor.is_administrator:
            kinds["users"] = api_users.users
        answers = await asyncio.gather(*(visit.api(one, query=query) for one in kinds.values()))
        found = list(zip(kinds, answers, strict=True))
        found.insert(0, ("connections", await _connections_called(visit, wanted)))
    return await visit.page("search.html", wanted=wanted, found=found)


async def _connections_called(visit: Visit, wanted: str) -> Row:
    """By what the client calls itself, by its address, or by its user."""
    low = wanted.lower()
    rows = [
        row
        for row in await visit.api(api_connections.connections)
        if any(
            low in str(row.get(key, "")).lower() for key in ("user_provided_name", "name", "user")
        )
    ]
    return {"items": rows[:FOUND_MAX], "filtered_count": len(rows)}


VIEWS: Final[dict[str, View]] = {
    "/": home,
    "/connections": connections,
    "/connection": connection,
    "/channels": channels,
    "/channel": channel,
    "/exchanges": exchanges,
    "/exchange": exchange,
    "/queues": queues,
    "/queue": queue,
    "/streams": streams,
    "/nodes": nodes,
    "/search": search,
}
