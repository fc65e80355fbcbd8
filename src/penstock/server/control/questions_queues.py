"""What the control socket answers about queues: a listing, pausing, resuming, ending groups.

One request is {"op": "queues", "do": "list" | "pause" | "resume" | "release", ...}. A queue is
named as it shows itself: `/orders` in the virtual host `/`, `tenant/orders` elsewhere, or `orders`
alone when one queue has that name.
"""

from typing import Final

from msgspec.structs import asdict

from penstock.base.errors import ChannelFault, OperatorError
from penstock.base.shown_names import shown_name, vhost_and_name
from penstock.broker.actors.cooperative import Steps
from penstock.broker.admin.answers import (
    QUEUE_SORTS,
    DeduplicatingRow,
    GroupEnded,
    Paused,
    QueueListing,
    QueueRow,
)
from penstock.broker.admin.view_store import stream_in_words
from penstock.broker.broker import Broker
from penstock.broker.lease.lease_manager import LeaseManager
from penstock.broker.lease.lease_view import leases_in_words
from penstock.broker.paging.paged_view import paged_of
from penstock.broker.queue.queue_actor import QueueActor
from penstock.broker.session.stream_requests import end_group
from penstock.broker.stream.stream_actor import stream_of
from penstock.broker.vhost.queue_arguments import type_in_words
from penstock.queues.applied import names_of
from penstock.queues.rules import DROP_NAMES, QueueRules, rules_in_words
from penstock.routing.deduplication import DeduplicationExchange
from penstock.routing.delayed import DelayedExchange
from penstock.server.control.request import Keyed, Request
from penstock.telemetry.actor_window import ActorWindow

WINDOW_S: Final = 10.0
STEP_QUEUES: Final = 512
STEP_ROWS: Final = 32
NO_RULES: Final = QueueRules()
LETTER_WORDS: Final = {
    "released": "released",
    "dead_lettered": "",
    "dead_letter_dropped": "lost: ",
    "dead_letter_escapes": "forced",
    "dead_letters_waiting": "waiting",
    "dead_letters_under_way": "under way",
}


def listing(request: Request) -> Steps[Keyed]:
    """A QueueListing, in steps: who comes first is looked at for all, the rest for what is shown.
    A queue that goes meanwhile is shown as it was."""
    sort, vhost, name = request.one_of("sort", QUEUE_SORTS), request.vhost(), request.text("name")
    pager = request.pager(sort)
    broker = request.broker
    windows = request.windows(WINDOW_S)
    wanted = [one for one in broker.vhosts if vhost in ("", one) and name == ""]
    if name != "":
        pager.offer((0, name), find(broker, name))
    for where in wanted:
        for index, one in enumerate(broker.queues_in(where)):
            pager.offer((-_weight(one, windows.get(one.identity), sort), _name(one)), one)
            if index % STEP_QUEUES == STEP_QUEUES - 1:
                yield 0.0
        yield 0.0
    rows: list[QueueRow] = []
    for one in pager.rows():
        rows.append(row_of(one, windows.get(one.identity), broker.leases))
        if len(rows) % STEP_ROWS == 0:
            yield 0.0
    is_first = name == "" and request.text("after") == ""
    exchanges = deduplicating(broker, vhost)[: pager.limit] if is_first else []
    answer = QueueListing(rows, pager.total, exchanges, pager.next())
    return request.keyed(asdict(answer), pager)


def pause(request: Request) -> Paused:
    """Pauses or resumes."""
    is_paused = request.text("do") == "pause"
    actor = find(request.broker, request.text("name"))
    was_paused = actor.is_paused
    actor.pause(is_paused)
    request.run_soon()
    return Paused(_name(actor), is_paused, was_paused)


def release(request: Request) -> GroupEnded:
    """End a group: what it leases is ready again, or what it pins of a stream may go."""
    actor, group = find(request.broker, request.text("name")), request.text("group")
    given_back = 0
    try:
        stream = stream_of(actor)
        if stream is not None:
            end_group(stream, group)
        else:
            given_back = request.broker.leases.release(actor, group, True)
    except ChannelFault as fault:
        raise OperatorError(fault.text) from fault
    request.run_soon()
    return GroupEnded(_name(actor), group, given_back)


def find(broker: Broker, name: str) -> QueueActor:
    """The queue called `name`. Raises: OperatorError when there is none, or more than one."""
    found = _shown_as(broker, name) or _called(broker, name)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(_name(one) for one in found)
        raise OperatorError(f"queue '{name}' is in several virtual hosts; write one of: {names}")
    raise OperatorError(f"no queue '{name}'; `penstock queues` lists them")


def _shown_as(broker: Broker, name: str) -> list[QueueActor]:
    """The queue that shows itself so, if there is one."""
    place = vhost_and_name(name.removeprefix("queue:"))
    vhost = None if place is None else broker.vhosts.get(place[0])
    actor = None if vhost is None or place is None else vhost.queues.get(place[1])
    return [] if actor is None else [actor]


def _called(broker: Broker, name: str) -> list[QueueActor]:
    """Those of this name in any virtual host."""
    named = [vhost.queues.get(name.removeprefix("queue:")) for vhost in broker.vhosts.values()]
    return [one for one in named if one is not None]


def seek(request: Request) -> dict[str, object]:
    """The queues that a name may mean, as they show themselves: `whole` those that do it so, `bare`
    those that are called so in their virtual host."""
    name = request.text("name")
    whole, bare = _shown_as(request.broker, name), _called(request.broker, name)
    return {"whole": [_name(one) for one in whole], "bare": [_name(one) for one in bare]}


def deduplicating(broker: Broker, only: str) -> list[DeduplicatingRow]:
    """Exchanges that drop duplicates, the most first. only: a virtual host, "" for all."""
    rows: list[DeduplicatingRow] = []
    for vhost in broker.vhosts.values():
        for exchange in vhost.router.exchanges():
            knows = exchange.inner if isinstance(exchange, DelayedExchange) else exchange
            if isinstance(knows, DeduplicationExchange) and only in ("", vhost.name):
                name = shown_name(vhost.name, exchange.name)
                known = len(knows.entries)
                rows.append(
                    DeduplicatingRow(name, vhost.name, knows.duplicate_count, known, knows.size)
                )
    return sorted(rows, key=lambda row: (-row.duplicates, row.name))


def _weight(actor: QueueActor, window: ActorWindow | None, sort: str) -> float:
    """Of QUEUE_SORTS; the heaviest comes first, and then the names decide."""
    if sort == "ready":
        return int(actor.messages.ready_count())
    if sort == "bytes":
        return _bytes(actor)
    return window.rates.get("published", 0.0) if sort == "rate" and window is not None else 0.0


def _bytes(actor: QueueActor) -> int:
    held = actor.messages.bytes_ready + actor.unacked_bytes + actor.uncommitted_bytes()
    return int(held) + letter_bytes(actor)


def _name(actor: QueueActor) -> str:
    return actor.identity.removeprefix("queue:")


def row_of(
    actor: QueueActor, window: ActorWindow | None, leases: LeaseManager | None = None
) -> QueueRow:
    """One queue. window: its last WINDOW_S."""
    queue_limits = actor.queue_limits
    messages = actor.messages
    rates = {} if window is None else window.rates
    paged, paged_bytes = paged_of(actor)
    policy, operator_policy = names_of(actor.applied)
    return QueueRow(
        name=_name(actor),
        vhost=actor.vhost,
        state=state_of(actor),
        messages_ready=int(messages.ready_count()),
        messages_unacknowledged=int(actor.unacked_count),
        bytes=_bytes(actor),
        messages_paged_out=paged,
        message_bytes_paged_out=paged_bytes,
        consumers=len(actor.consumers),
        in_rate=rates.get("published", 0.0),
        out_rate=rates.get("delivered", 0.0),
        durable=actor.durable,
        rules=rules_of(actor) | ({} if leases is None else leases_in_words(leases, actor)),
        policy=policy,
        operator_policy=operator_policy,
        effective_policy_definition={} if actor.applied is None else dict(actor.applied.definition),
        drops={} if queue_limits is None else drops_of(queue_limits.drops),
        dead_letters=letters_of(actor),
        messages_uncommitted=int(actor.uncommitted_count()),
    )


def rules_of(actor: QueueActor) -> dict[str, str]:
    """The rules `actor` goes by, in words."""
    queue_limits = actor.queue_limits
    said = rules_in_words(NO_RULES if queue_limits is None else queue_limits.rules)
    if actor.choice is not None and actor.choice.is_single:
        said["single-active-consumer"] = "true"
    if actor.depth_source != "":
        said["depth-mark"] = str(int(actor.depth_bytes))
    kind = type_in_words(actor.arguments)
    if kind != "":
        said["queue-type"] = kind
    return said | stream_in_words(actor)


def drops_of(counts: list[int]) -> dict[str, int]:
    """Messages given up, by reason."""
    return {name: count for name, count in zip(DROP_NAMES, counts, strict=True) if count > 0}


def letter_bytes(actor: QueueActor) -> int:
    """Of dead letters that rest in the queue and wait to be sent."""
    return 0 if actor.queue_limits is None else int(actor.queue_limits.held_bytes())


def letters_of(actor: QueueActor) -> dict[str, int]:
    """What became of its dead letters, in words: sent by the reason of their death, lost by the
    reason of that, how many wait, are under way, or were forced into a full queue."""
    letters = None if actor.queue_limits is None else actor.queue_limits.dead_letters
    found: dict[str, int] = {}
    if letters is not None:
        for key, count in letters.numbers().items():
            kind, _, reason = key.partition(":")
            found[LETTER_WORDS[kind] + reason] = int(count)
    return found


def state_of(actor: QueueActor) -> str:
    """damaged (and paused for it), paused, full, deep (above its depth mark), or running."""
    if actor.is_paused:
        return "paused" if actor.damaged_count == 0 else "damaged"
    reason = actor.stop_reason()
    return {"": "running", "depth": "deep"}.get(reason, reason)
