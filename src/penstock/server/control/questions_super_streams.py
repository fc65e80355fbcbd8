"""What the control socket answers about super streams: a listing, making, extending and deleting.

One request is {"op": "super-streams", "do": "list" | "add" | "delete", "name": ...}. `add` takes
"partitions", a number: the keys are hashed, or "routing_keys", a list: a key is a partition, with
"extends" for one that is there already, and "arguments" of the streams. It makes all of it or
nothing, and answers when the disk has it.
"""

from collections.abc import Callable
from typing import Final

from penstock.base.errors import OperatorError, PeerError
from penstock.base.limits import SUPER_STREAM_PARTITIONS
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import PartitionRow
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.vhost.queue_arguments import (
    TYPE_KEY,
    check_exchange,
    check_properties,
    check_queue,
    check_type,
)
from penstock.broker.vhost.stream_arguments import STREAM
from penstock.broker.vhost.super_streams import is_super_stream, partitions_of
from penstock.broker.vhost.vhost import VirtualHost
from penstock.protocol.values import Table
from penstock.routing.exchange import Exchange
from penstock.routing.factory import make_exchange
from penstock.routing.super_stream import PARTITION_ORDER, SUPER_STREAM
from penstock.server.control.questions_definitions import reach_disk
from penstock.server.control.request import Keyed, Request

BY_KEY: Final = "direct"
RESERVED: Final = "amq."
NAME_BYTES_MAX: Final = 255
STEP_ROWS: Final = 64
QUEUE_BIND: Final = 50


def listing(request: Request) -> Steps[Keyed]:
    """A PartitionListing, in steps."""
    broker, pager = request.broker, request.pager()
    only = request.vhost()
    for home in [only] if only else list(broker.vhosts):
        vhost = broker.vhosts.get(home)
        for exchange in vhost.router.exchanges() if vhost is not None else ():
            if vhost is None or not is_super_stream(exchange):
                continue
            for place, row in enumerate(_rows(vhost, exchange)):
                pager.offer((home, exchange.name, place), row)
            yield 0.0
    rows = pager.rows()
    page: dict[str, object] = {"partitions": rows, "total": pager.total, "next": pager.next()}
    return request.keyed(page, pager)


def _rows(vhost: VirtualHost, exchange: Exchange) -> list[PartitionRow]:
    found = []
    for one in partitions_of(vhost, exchange):
        stream = stream_of(vhost.queues[one.name])
        log = None if stream is None else stream.counts.log
        held = (0, 0) if log is None else (int(log.committed - log.first()), int(log.disk_bytes))
        row = PartitionRow(
            vhost.name, exchange.name, exchange.kind, one.name, one.routing_key, *held
        )
        found.append(row)
    return found or [PartitionRow(vhost.name, exchange.name, exchange.kind, "", "", 0, 0)]


def add(request: Request) -> Steps[dict[str, object]]:
    """Make a super stream, or more partitions of one. Raises: OperatorError, and then nothing has
    changed."""
    vhost, name = _vhost(request), request.text("name")
    exchange = vhost.find_exchange(name) if name else None
    extends = request.is_set("extends")
    if extends:
        exchange = _super_stream(vhost, name)
    elif exchange is not None:
        raise OperatorError(
            f"exchange '{name}' is there already in vhost '{vhost.name}'; give another name, or "
            "`penstock streams add-partitions` for more of a super stream"
        )
    first = exchange.binding_count if exchange is not None else 0
    kind, keys = _keys(request, exchange, first)
    arguments = request.fields.get("arguments", {})
    if not isinstance(arguments, dict):
        raise OperatorError("arguments of the partitions have to be an object")
    table: Table = {TYPE_KEY: STREAM, **arguments}
    names = [f"{name}-{key}" for key in keys]
    _check_names(vhost, name, names)
    undo: list[Callable[[], None]] = []
    try:
        if exchange is None:
            marks: Table = {SUPER_STREAM: True}
            check_exchange(name, vhost.name, marks)
            exchange = make_exchange(kind, name, True, False, False, marks)
            _add_exchange(request, vhost, exchange, undo)
        for place, (key, partition) in enumerate(zip(keys, names, strict=True), first):
            _add_partition(request, vhost, partition, table, undo)
            order: Table = {PARTITION_ORDER: place}
            target = vhost.queues[partition].target
            vhost.bind(exchange, target, key, order, QUEUE_BIND)
    except PeerError as error:
        for one in reversed(undo):
            one()
        request.run_soon()
        raise OperatorError(f"{error.text}; nothing was made") from error
    request.run_soon()
    said = f"super stream '{name}' has {first + len(keys)} partitions, "
    said += f"{'with' if extends else ''} {', '.join(names[:3])}".strip()
    said += ", …" if len(names) > 3 else ""
    if not (yield from reach_disk(request.broker)):
        said += "; the disk does not have all of it yet, see the broker's log"
    return {"said": said}


def delete(request: Request) -> Steps[dict[str, object]]:
    """Delete the exchange and its partitions with their messages. Raises: OperatorError."""
    vhost, name = _vhost(request), request.text("name")
    exchange = _super_stream(vhost, name)
    names = [one.name for one in partitions_of(vhost, exchange)]
    vhost.remove_exchange(exchange)
    for partition in names:
        actor = vhost.queues.get(partition)
        if actor is not None:
            vhost.remove_queue(actor)
        request.run_soon()
        yield 0.0
    yield from reach_disk(request.broker)
    return {"said": f"super stream '{name}' is deleted with {len(names)} partitions"}


def _vhost(request: Request) -> VirtualHost:
    found = request.broker.vhosts.get(request.vhost() or "/")
    if found is None or found.is_leaving:
        raise OperatorError("the vhost is being deleted")
    return found


def _super_stream(vhost: VirtualHost, name: str) -> Exchange:
    found = vhost.find_exchange(name) if name else None
    if found is None or not is_super_stream(found):
        what = (
            "no exchange has that name"
            if found is None
            else f"the exchange is of type {found.kind}, without the argument x-super-stream"
        )
        raise OperatorError(
            f"'{name}' in vhost '{vhost.name}' is no super stream: {what}; `penstock streams` "
            "lists them"
        )
    return found


def _keys(request: Request, exchange: Exchange | None, first: int) -> tuple[str, list[str]]:
    """The type of the exchange, and the routing keys of the new partitions."""
    count, given = request.fields.get("partitions"), request.fields.get("routing_keys")
    if (count is None) == (given is None):
        raise OperatorError("give either how many partitions, or their routing keys")
    kind = BY_KEY if count is None else SUPER_STREAM
    if exchange is not None and exchange.kind != kind:
        fitting = "--partitions" if exchange.kind == SUPER_STREAM else "--routing-keys"
        raise OperatorError(
            f"exchange '{exchange.name}' is of type {exchange.kind}, whose partitions are given "
            f"with {fitting}"
        )
    most = SUPER_STREAM_PARTITIONS.default
    if isinstance(count, int):
        keys = [str(first + number) for number in range(min(count, most + 1))]
    elif isinstance(given, list) and all(isinstance(key, str) and key for key in given):
        keys = given
    else:
        raise OperatorError("routing keys have to be texts, none of them empty")
    if not keys or first + len(keys) > most:
        raise OperatorError(
            f"a super stream has 1..{most} partitions, and '{request.text('name')}' would have "
            f"{first + (count if isinstance(count, int) else len(keys))}"
        )
    if len(set(keys)) < len(keys):
        raise OperatorError("a routing key is given twice, and each is a partition of its own")
    return kind, keys


def _check_names(vhost: VirtualHost, name: str, names: list[str]) -> None:
    """Raises: OperatorError for names that none may have, or that queues have."""
    if name == "" or name.startswith(RESERVED):
        raise OperatorError(f"a super stream cannot be called '{name}': give it a name of its own")
    for one in names:
        if len(one.encode()) > NAME_BYTES_MAX:
            raise OperatorError(f"the partition '{one}' has a name of more than 255 bytes")
        if one in vhost.queues:
            raise OperatorError(
                f"a queue '{one}' is there already in vhost '{vhost.name}'; delete it, or bind it "
                f"to an exchange yourself"
            )


def _add_exchange(
    request: Request, vhost: VirtualHost, exchange: Exchange, undo: list[Callable[[], None]]
) -> None:
    vhost.add_exchange(exchange)
    undo.append(lambda: vhost.remove_exchange(exchange))
    request.broker.exchange_made(vhost, exchange)


def _add_partition(
    request: Request,
    vhost: VirtualHost,
    name: str,
    arguments: Table,
    undo: list[Callable[[], None]],
) -> None:
    """Raises: PeerError."""
    check_queue(name, vhost.name, arguments)
    check_type(name, vhost.name, arguments)
    check_properties(name, vhost.name, True, False, False, arguments)
    vhost.check_room(name)
    actor = request.broker.make_queue(vhost, name, True, False, "", arguments)
    vhost.add_queue(actor)
    undo.append(lambda: vhost.remove_queue(actor))
