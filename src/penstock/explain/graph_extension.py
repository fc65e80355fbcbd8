"""Prolongs the wait-for graph past what gates can see: parked publishes, clients, and sockets.

    conn:P -> chan:P/1 -> queue:Q  publishes of P are parked for Q
    consumers:Q -> chan:W/1     the consumer W is given nothing because it acks nothing, and it acks
                                nothing because its own publishes are held: it forwards
    queue:Q -> dead:Q -> queue:T  Q is full of what has died, for which T has no room
    conn:P -> socket:C          P has used up an account, and what it has outstanding waits for the
                                socket of C, which is not read
No gate says any of these: what is parked has books of its own, the wait of a consumer is inside a
client, that for dead letters is said of the queue's consumers (dead_letter_causes), and an account
has no place. They are inferred from the numbers of the same window, so blame stays conserved; it
only goes further.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from penstock.base.steps import whole
from penstock.explain.blame import FORWARDS, split
from penstock.explain.dead_letter_causes import through_letters
from penstock.explain.explanation import THROTTLED_SHARE
from penstock.explain.root_causes import OF_CONSUMERS
from penstock.explain.window_index import paced
from penstock.telemetry.actor_window import BOTH_NS, OWED, WAITED, ActorWindow, BlockWindow
from penstock.telemetry.snapshots import NS_PER_S
from penstock.telemetry.words import name_of

CREDIT: Final = "credit_initial:"
"""Prefix, in numbers of a channel, of what it publishes to."""

CONFIRMS: Final = "confirms"
"""Reason of a channel that waits for confirms of a queue that is stopped; its label, too."""

CONFIRMS_NS: Final = f"{WAITED}confirms:ns"

OWES: Final = "owes"
"""Reason of a publisher whose account is used up by what waits for a socket."""

FORWARDED_SHARE: Final = 0.5
"""A consumer that publishes over another channel forwards if it sends so much of what it acks."""


def beyond(windows: Mapping[str, ActorWindow]) -> dict[str, ActorWindow]:
    """The same windows under their first names, before `named`; those of consumers that forward,
    and of connections and channels held for debt, or with parked publishes, have further or other
    blocks."""
    answer = dict(windows)
    whole(extending(answer))
    return answer


def extending(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    """The same in place, in steps."""
    # No actor comes or goes, so that steps may go through them while they are changed.
    yield from _with_parked(windows)
    yield from through_letters(windows)
    yield from _through_clients(windows)
    yield from _into_sockets(windows)


class Forwarding(NamedTuple):
    """A consumer could be given nothing for `held_ns`, `ns` of it because it waited for its own
    publishes in `channel`; "" and 0 where it did not."""

    channel: str
    ns: int
    held_ns: int


# -- parked publishes ----------------------------------------------------------------------------


def _with_parked(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    """Whose publishes waited counts as held for that time: by whom they waited for, whatever else
    held it then, because what is parked came first."""
    for one in paced(windows.items()):
        if one is None:
            yield 0.0
        elif one[1].parked:
            windows[one[0]] = _parked(one[1])


def _parked(window: ActorWindow) -> ActorWindow:
    # A wait is dated back to its first publish, which may lie before the window.
    parked = _cut(window.parked, min(window.parked_ns(), window.window_ns))
    parked_ns = sum(block.ns for block in parked)
    both_ns = round(window.rates.get(BOTH_NS, 0.0) * window.window_ns / NS_PER_S)
    alone_ns = min(max(0, window.blocked_ns - both_ns), window.window_ns - parked_ns)
    alone = [block for block in _cut(window.blocks, alone_ns) if block.ns > 0]
    blocks = sorted((*alone, *parked), key=lambda one: (-one.ns, one.peer, one.reason))
    since = [ns for ns in (window.since_ns, window.parked_since_ns) if ns is not None]
    return replace(
        window,
        blocked_ns=sum(block.ns for block in blocks),
        stops=window.stops + sum(block.stops for block in parked),
        longest_ns=max(window.longest_ns, *(block.longest_ns for block in parked)),
        since_ns=min(since, default=None),
        blocks=tuple(blocks),
        parked=parked,
    )


def _cut(blocks: tuple[BlockWindow, ...], ns: int) -> tuple[BlockWindow, ...]:
    """These blocks in their proportions, as parts of `ns`."""
    if sum(block.ns for block in blocks) <= ns:
        return blocks
    parts = split(ns, [block.ns for block in blocks])
    return tuple(replace(block, ns=part) for block, part in zip(blocks, parts, strict=True))


# -- through clients -----------------------------------------------------------------------------


def _through_clients(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    yield from _waiting_for_confirms(windows)
    held_channels = yield from _held_channels(windows)
    if not held_channels:
        return
    by_queue: dict[str, list[Forwarding]] = {}
    for each in paced(windows.items()):
        if each is None:
            yield 0.0
            continue
        actor, window = each
        if window.kind != "consumer" or "channel" not in window.labels:
            continue
        queue = window.labels["queue"]
        one = _forwarding(window, windows.get(queue), held_channels)
        by_queue.setdefault(queue, []).append(one)
        if one.ns > 0:
            own_ns = one.held_ns - one.ns
            parts = [(one.channel, FORWARDS, one.ns), ("", "prefetch", own_ns)]
            windows[actor] = _held_by(window, parts)
    for pair in paced(by_queue.items()):
        if pair is None:
            yield 0.0
            continue
        queue, found = pair
        together = windows.get(f"consumers:{name_of(queue)}")
        if together is not None and any(one.ns > 0 for one in found):
            windows[together.actor] = _all_held(together, found)


def _waiting_for_confirms(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    """A consumer that acks when its own publish is confirmed has fewer on the way than a closed hop
    needs: its channel waits for the queue of those it publishes to that was stopped longest."""
    acked: dict[str, float] = {}
    for one in paced(windows.values()):
        if one is None:
            yield 0.0
        elif one.kind == "consumer" and one.times.waiting_ns > 0:
            connection = f"conn:{one.actor.rpartition('@conn:')[2]}"
            acked[connection] = acked.get(connection, 0.0) + one.rates.get("acked", 0.0)
    for pair in paced(windows.items()):
        if pair is None:
            yield 0.0
            continue
        actor, window = pair
        connection = f"conn:{name_of(actor).rpartition('/')[0]}"
        if window.kind != "chan" or window.blocked_ns > 0 or connection not in acked:
            continue
        # A channel that publishes as much as is acked waits for confirms, even if its client is so
        # fast that no wait could be seen; one that has stood still has a wait.
        waited_ns = round(window.rates.get(CONFIRMS_NS, 0.0) * window.window_ns / NS_PER_S)
        if window.rates.get("published", 0.0) > FORWARDED_SHARE * acked[connection]:
            waited_ns = window.window_ns if CONFIRMS in window.labels else waited_ns
        stopped = [
            (windows[queue].blocked_ns, queue)
            for queue in (key.removeprefix(CREDIT) for key in window.numbers)
            if queue in windows and windows[queue].kind == "queue"
        ]
        ns, queue = max(stopped, default=(0, ""))
        ns = min(ns, waited_ns, window.window_ns)
        if ns >= THROTTLED_SHARE * window.window_ns and ns > 0:
            windows[actor] = _held_by(window, [(queue, CONFIRMS, ns)])


def _held_channels(
    windows: Mapping[str, ActorWindow],
) -> Generator[float, None, dict[str, list[ActorWindow]]]:
    """The channels of each connection that publish and were held, most first."""
    answer: dict[str, list[ActorWindow]] = {}
    for window in paced(windows.values()):
        if window is None:
            yield 0.0
        elif window.kind == "chan" and window.blocked_ns > 0:
            address = name_of(window.actor).rpartition("/")[0]
            answer.setdefault(f"conn:{address}", []).append(window)
    for channels in paced(answer.values()):
        if channels is None:
            yield 0.0
            continue
        channels.sort(key=lambda window: (-window.blocked_ns, window.actor))
    return answer


def _forwarding(
    consumer: ActorWindow,
    queue: ActorWindow | None,
    held_channels: Mapping[str, list[ActorWindow]],
) -> Forwarding:
    """Which channel a consumer's acks wait behind, and for how long."""
    held_ns = max(consumer.times.waiting_ns, _has_all_ns(consumer, queue))
    connection = f"conn:{consumer.actor.rpartition('@conn:')[2]}"
    own = f"chan:{name_of(connection)}/{consumer.labels['channel']}"
    acked = consumer.rates.get("acked", 0.0)
    for channel in held_channels.get(connection, ()):
        published = channel.rates.get("published", 0.0)
        if channel.actor == own or published > FORWARDED_SHARE * acked:
            return Forwarding(channel.actor, min(held_ns, channel.blocked_ns), held_ns)
    return Forwarding("", 0, held_ns)


def _has_all_ns(consumer: ActorWindow, queue: ActorWindow | None) -> int:
    """How long a queue was stopped at a mark by nothing but what its consumers have not acked: they
    have room for more then, and it has no more to give."""
    if queue is None or queue.numbers.get("ready", 0.0) > 0:
        return 0
    if consumer.numbers.get("unacked", 0.0) == 0:
        return 0
    ns = sum(block.ns for block in queue.blocks if block.reason in OF_CONSUMERS)
    return min(consumer.window_ns, ns)


def _all_held(together: ActorWindow, consumers: list[Forwarding]) -> ActorWindow:
    """All consumers of a queue: its whole window split as their time together was held."""
    total_ns = sum(one.held_ns for one in consumers)
    if total_ns == 0:
        return together
    parts = [(one.channel, FORWARDS, one.ns) for one in consumers if one.ns > 0]
    parts.append(("", "prefetch", total_ns - sum(ns for _, _, ns in parts)))
    shares = split(together.window_ns, [ns for _, _, ns in parts])
    return _held_by(
        together,
        [(peer, why, ns) for (peer, why, _), ns in zip(parts, shares, strict=True)],
    )


def _held_by(window: ActorWindow, parts: list[tuple[str, str, int]]) -> ActorWindow:
    blocks = [BlockWindow(peer, reason, ns) for peer, reason, ns in parts if ns > 0]
    blocks.sort(key=lambda block: (-block.ns, block.peer))
    return replace(window, blocked_ns=sum(block.ns for block in blocks), blocks=tuple(blocks))


# -- into sockets --------------------------------------------------------------------------------


def _into_sockets(windows: dict[str, ActorWindow]) -> Generator[float, None, None]:
    in_debt: list[ActorWindow] = []
    for one in paced(windows.values()):
        if one is None:
            yield 0.0
        elif any(block.reason == "debt" for block in one.blocks):
            in_debt.append(one)
    if not in_debt:
        return
    owed = yield from _owed(windows)
    for window in paced(in_debt, 1):
        if window is None:
            yield 0.0
            continue
        blocks: list[BlockWindow] = []
        for block in window.blocks:
            places = owed.get(block.peer, {}) if block.reason == "debt" else {}
            blocks += _split(block, places, windows.get(block.peer))
        blocks.sort(key=lambda block: (-block.ns, block.peer, block.reason))
        windows[window.actor] = replace(window, blocks=tuple(blocks))


def _owed(
    windows: Mapping[str, ActorWindow],
) -> Generator[float, None, dict[str, dict[str, float]]]:
    """Bytes each account, with all below it, has waiting at each socket."""
    answer: dict[str, dict[str, float]] = {}
    for window in paced(windows.values()):
        if window is None:
            yield 0.0
            continue
        if window.kind != "conn":
            continue
        place = f"socket:{name_of(window.actor)}"
        for key, bytes_ in window.numbers.items():
            if key.startswith(OWED):
                for account in _levels(key.removeprefix(OWED), windows):
                    places = answer.setdefault(account, {})
                    places[place] = places.get(place, 0.0) + bytes_
    return answer


def _levels(account: str, windows: Mapping[str, ActorWindow]) -> list[str]:
    """A connection's account and those above it that are known; see flow/account."""
    window = windows.get(account)
    levels = [account, "node"]
    if window is not None and "user" in window.labels:
        vhost = window.labels.get("vhost", "/")
        levels += [f"user:{window.labels['user']}@{vhost}", f"vhost:{vhost}"]
    return levels


def _split(
    block: BlockWindow, places: Mapping[str, float], account: ActorWindow | None
) -> list[BlockWindow]:
    """A hold for debt, split over where the debt is; what is not at a socket stays as it was."""
    waiting = round(sum(places.values()))
    if waiting == 0:
        return [block]
    debt = 0 if account is None else round(account.numbers.get("debt_bytes", 0.0))
    names = sorted(places, key=lambda place: (-places[place], place))
    weights = [max(0, debt - waiting), *(round(places[name]) for name in names)]
    first, *rest = split(block.ns, weights)
    parts = [replace(block, ns=first)] if first > 0 else []
    return parts + [
        replace(block, peer=name, reason=OWES, ns=ns)
        for name, ns in zip(names, rest, strict=True)
        if ns > 0
    ]
