"""Prolongs the wait-for graph past what gates can see: through clients, and into their sockets.

    consumers:Q -> chan:W/1     the consumer W is given nothing because it acks nothing, and it acks
                                nothing because its own publishes are held: it forwards
    queue:Q -> dead:Q -> queue:T  Q is full of what has died, for which T has no room
    conn:P -> socket:C          P has used up an account, and what it has outstanding waits for the
                                socket of C, which is not read
No gate says any of these: the first wait is inside a client, the second is said of the queue's
consumers (dead_letter_causes), and an account has no place. They are inferred from the numbers of
the same window, so blame stays conserved; it only goes further.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.explain.blame import FORWARDS, split
from penstock.explain.dead_letter_causes import through_letters
from penstock.telemetry.actor_window import OWED, ActorWindow, BlockWindow
from penstock.telemetry.words import name_of

OWES: Final = "owes"
"""Reason of a publisher whose account is used up by what waits for a socket."""

FORWARDED_SHARE: Final = 0.5
"""A consumer that publishes over another channel forwards if it sends so much of what it acks."""


def beyond(windows: Mapping[str, ActorWindow]) -> dict[str, ActorWindow]:
    """The same windows under their first names, before `named`; those of consumers that forward,
    and of connections and channels held for debt, have further or other blocks."""
    answer = dict(windows)
    through_letters(answer)
    _through_clients(answer)
    _into_sockets(answer)
    return answer


# -- through clients -----------------------------------------------------------------------------


def _through_clients(windows: dict[str, ActorWindow]) -> None:
    held_channels = _held_channels(windows)
    if not held_channels:
        return
    by_queue: dict[str, list[tuple[ActorWindow, str, int]]] = {}
    for actor, window in list(windows.items()):
        if window.kind != "consumer" or "channel" not in window.labels:
            continue
        channel, ns = _forwarding(window, held_channels)
        found = by_queue.setdefault(window.labels["queue"], [])
        found.append((window, channel, ns))
        if ns > 0:
            own_ns = window.times.waiting_ns - ns
            windows[actor] = _held_by(window, [(channel, FORWARDS, ns), ("", "prefetch", own_ns)])
    for queue, found in by_queue.items():
        together = windows.get(f"consumers:{name_of(queue)}")
        if together is not None and any(ns > 0 for _, _, ns in found):
            windows[together.actor] = _all_held(together, found)


def _held_channels(windows: Mapping[str, ActorWindow]) -> dict[str, list[ActorWindow]]:
    """The channels of each connection that publish and were held, most first."""
    answer: dict[str, list[ActorWindow]] = {}
    for window in windows.values():
        if window.kind == "chan" and window.blocked_ns > 0:
            address = name_of(window.actor).rpartition("/")[0]
            answer.setdefault(f"conn:{address}", []).append(window)
    for channels in answer.values():
        channels.sort(key=lambda window: (-window.blocked_ns, window.actor))
    return answer


def _forwarding(
    consumer: ActorWindow, held_channels: Mapping[str, list[ActorWindow]]
) -> tuple[str, int]:
    """The channel a consumer's acks wait behind and for how long, nanoseconds; ("", 0) if none."""
    connection = f"conn:{consumer.actor.rpartition('@conn:')[2]}"
    own = f"chan:{name_of(connection)}/{consumer.labels['channel']}"
    acked = consumer.rates.get("acked", 0.0)
    for channel in held_channels.get(connection, ()):
        published = channel.rates.get("published", 0.0)
        if channel.actor == own or published > FORWARDED_SHARE * acked:
            return channel.actor, min(consumer.times.waiting_ns, channel.blocked_ns)
    return "", 0


def _all_held(together: ActorWindow, consumers: list[tuple[ActorWindow, str, int]]) -> ActorWindow:
    """All consumers of a queue: its whole window split as their time together was held."""
    total_ns = sum(window.times.waiting_ns for window, _, _ in consumers)
    if total_ns == 0:
        return together
    parts = [(channel, FORWARDS, ns) for _, channel, ns in consumers if ns > 0]
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


def _into_sockets(windows: dict[str, ActorWindow]) -> None:
    in_debt = [
        window
        for window in windows.values()
        if any(block.reason == "debt" for block in window.blocks)
    ]
    if not in_debt:
        return
    owed = _owed(windows)
    for window in in_debt:
        blocks: list[BlockWindow] = []
        for block in window.blocks:
            places = owed.get(block.peer, {}) if block.reason == "debt" else {}
            blocks += _split(block, places, windows.get(block.peer))
        blocks.sort(key=lambda block: (-block.ns, block.peer, block.reason))
        windows[window.actor] = replace(window, blocks=tuple(blocks))


def _owed(windows: Mapping[str, ActorWindow]) -> dict[str, dict[str, float]]:
    """Bytes each account, with all below it, has waiting at each socket."""
    answer: dict[str, dict[str, float]] = {}
    for window in windows.values():
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
