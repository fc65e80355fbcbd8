"""Requests that publish exactly once: staged transactions and their commit (docs/transactions.md).

transaction.begin     {app, batch, attempt, ttl_ms, max_bytes} -> {id}
transaction.stage     {id} -> {messages, bytes}
transaction.commit    {app, batch, ids} -> {committed, already, messages}
transaction.rollback  {app, batch, ids} -> {dropped}
transaction.last      {app} -> {batch}
transaction.forget    {app} -> {forgotten}
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from penstock.base.limits import TRANSACTION_BYTES, TRANSACTION_TTL_MS
from penstock.broker.channel.channel import Channel
from penstock.broker.channel.publish import Publisher
from penstock.broker.session.tickets import Ask, refused
from penstock.broker.transaction.commit_routes import Asked
from penstock.broker.transaction.stages import OPEN, StagedTransaction
from penstock.broker.transaction.transaction_manager import is_over

BATCH_MOST: Final = (1 << 63) - 1
NS_PER_MS: Final = 1_000_000
NAME_BYTES_MOST: Final = 255


def begin(ask: Ask) -> None:
    """What the channel publishes from now on is staged. Raises: ChannelFault 406."""
    channel, publisher = _channel(ask)
    if channel.transaction is not None or publisher.confirms is not None:
        raise refused("the channel confirms, or has a transaction already; take another channel")
    stage = StagedTransaction(
        ask.session.host.fresh_name("txn-"),
        _app(ask),
        _batch(ask),
        ask.text("attempt", ""),
        ask.number_of("max_bytes", 1, 1 << 62, TRANSACTION_BYTES.default),
        channel.line.clock.monotonic_ns()
        + NS_PER_MS
        * ask.number_of(
            "ttl_ms",
            TRANSACTION_TTL_MS.lowest,
            TRANSACTION_TTL_MS.highest,
            TRANSACTION_TTL_MS.default,
        ),
    )
    ask.session.host.transactions.begin(
        ask.session.vhost.name,
        stage,
        lambda: channel.is_closed or channel.transaction is not stage,
    )
    channel.transaction = stage
    ask.ticket.settle({"id": stage.identity})


def stage(ask: Ask) -> None:
    """What was published since `begin` waits for its commit. Refused, and rolled back then: 404,
    and what is said of the messages by a commit. Raises: ChannelFault 404, 406."""
    channel, publisher = _channel(ask)
    identity = ask.text("id")
    found = channel.transaction
    if not isinstance(found, StagedTransaction) or found.identity != identity:
        raise refused(f"the channel does not stage transaction '{identity}'", 404)
    manager = ask.session.host.transactions
    if identity not in manager.stages or found.state != OPEN:
        raise refused(is_over(found), 404)
    channel.transaction = None
    manager.staged(found, _asked(ask, channel, publisher))


def commit(ask: Ask) -> None:
    """Everything staged under `ids` becomes visible at once, if `batch` is above the app's last
    one. Raises: ChannelFault 404, 406, and then nothing is committed."""
    channel, publisher = _channel(ask)
    asked = _asked(ask, channel, publisher)
    ask.session.host.transactions.commit(asked, _app(ask), _batch(ask), _ids(ask))


def roll_back(ask: Ask) -> None:
    """Drop transactions of a batch: those of `ids`, or all of them without."""
    ids = _ids(ask) if "ids" in ask.arguments else None
    count = ask.session.host.transactions.roll_back(
        ask.session.vhost.name, _app(ask), _batch(ask), ids
    )
    ask.ticket.settle({"dropped": count})


def last(ask: Ask) -> None:
    """The batch that the app has committed last, -1 for none."""
    mark = ask.session.host.transactions.marks_of(ask.session.vhost.name).last.get(_app(ask))
    ask.ticket.settle({"batch": -1 if mark is None else mark.batch})


def forget(ask: Ask) -> None:
    """The app begins anew: any batch of it can be committed again. Raises: ChannelFault 406 while
    a commit of it is under way."""
    app = _app(ask)
    manager = ask.session.host.transactions
    vhost = ask.session.vhost.name
    if (vhost, app) in manager.under_way:
        raise refused(f"a commit of app '{app}' is under way")
    ask.ticket.settle({"forgotten": manager.marks_of(vhost).forget(app)})


def _channel(ask: Ask) -> tuple[Channel, Publisher]:
    channel = ask.session.connection.channels[ask.number]
    return channel, channel.publisher


def _asked(ask: Ask, channel: Channel, publisher: Publisher) -> Asked:
    return Asked(publisher, ask.ticket.settle, ask.ticket.refuse, lambda: channel.is_closed)


def _app(ask: Ask) -> str:
    app = ask.text("app")
    if not 0 < len(app.encode()) <= NAME_BYTES_MOST:
        raise refused(f"argument 'app' has to have 1 to {NAME_BYTES_MOST} bytes")
    return app


def _batch(ask: Ask) -> int:
    return ask.number_of("batch", 0, BATCH_MOST)


def _ids(ask: Ask) -> list[str]:
    given = ask.arguments.get("ids")
    ids = [one for one in given if isinstance(one, str)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(ids) != len(given):
        raise refused("argument 'ids' is no list of texts")
    return ids


TRANSACTION_HANDLERS: Final[Mapping[str, tuple[Callable[[Ask], None], str]]] = MappingProxyType(
    {
        "transaction.begin": (begin, "app batch attempt max_bytes ttl_ms"),
        "transaction.stage": (stage, "id"),
        "transaction.commit": (commit, "app batch ids"),
        "transaction.rollback": (roll_back, "app batch ids"),
        "transaction.last": (last, "app"),
        "transaction.forget": (forget, "app"),
    }
)
