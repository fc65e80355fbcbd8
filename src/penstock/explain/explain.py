"""Answers "why": from the windows of all actors to a verdict, a chain, its root and what helps.

Pure: give it WindowHistory.over(...) of a live broker, or windows rebuilt from an event file.
"""

from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Final

from penstock.base.steps import whole
from penstock.explain.advice import advise, part_company
from penstock.explain.answers import (
    about_answers,
    advise_answers,
    most_waiting,
    own_share,
    waiting_publishers,
    waits_long,
    waits_of,
)
from penstock.explain.blame import Stay, following
from penstock.explain.causes import causes_of, chain_to
from penstock.explain.consumer_causes import (
    consumer_detail,
    consumer_trouble,
    held_share,
    queue_detail,
)
from penstock.explain.dead_letter_causes import letters_note
from penstock.explain.explanation import (
    FREE,
    THROTTLED,
    THROTTLED_SHARE,
    UNKNOWN,
    Explanation,
    RootCause,
    Wait,
)
from penstock.explain.naming import clean_name, finding, naming_close
from penstock.explain.remarks import (
    Waiting,
    about_mixture,
    about_waiting,
    loads,
    longest_stopped,
    mixture_on,
    notes_on,
    sharing,
    unmix,
    waiting,
)
from penstock.explain.render import render
from penstock.explain.root_causes import (
    dominant_state,
    full_disk_note,
    rate_note,
    state_share,
    uncommitted_note,
)
from penstock.explain.victims import cause_at, held_by
from penstock.explain.window_index import WindowIndex, indexed, paced
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, blamed, called, name_of, percent, rate, was_held

__all__ = ["explain", "render"]

VICTIMS_SHOWN: Final = 5
SUGGESTIONS_MAX: Final = 3
SECOND_SHARE: Final = 0.2
"""A second cause with so much of the blocked time has its advice, too."""


def explain(
    kind: str, name: str, windows: Mapping[str, ActorWindow], now_ns: int, window_s: float = 10.0
) -> Explanation:
    """Why this actor waited in the last `window_s` seconds.

    kind: one of KINDS with `name` the actor's id, with or without its prefix (a consumer's tag, a
    connection's peer address or its client's name for it will do too; a queue without vhost is
    looked for in `/`); or
    `publish`, the worst publisher; or `not`, the same question from its other end: both say so
    when nothing is blocked. now_ns: monotonic, of the newest snapshot. Never raises on a name
    no actor bears: the answer's state is then UNKNOWN, and it lists close names.
    """
    return whole(explaining(kind, name, indexed(windows), now_ns, window_s))


def explaining(
    kind: str, name: str, windows: WindowIndex, now_ns: int, window_s: float
) -> Generator[float, None, Explanation]:
    """The same in steps."""
    if kind in ("publish", "not"):
        return (yield from _explain_publishers(windows, now_ns, window_s))
    subject = yield from finding(kind, name, windows)
    if subject is None:
        text, close = yield from naming_close(kind, name, windows)
        return Explanation("", "", UNKNOWN, window_s, text, close_names=close)
    return (yield from _explain_actor(windows[subject], windows, now_ns, window_s))


def _explain_publishers(
    windows: WindowIndex, now_ns: int, window_s: float
) -> Generator[float, None, Explanation]:
    worst: ActorWindow | None = None
    count, is_throttled = 0, False
    for w in paced(windows.of_kind("conn")):
        if w is None:
            yield 0.0
        elif w.rates.get("published", 0.0) > 0 or w.blocked_ns > 0:
            count += 1
            is_throttled = is_throttled or w.blocked_share() >= THROTTLED_SHARE
            if worst is None or _by_trouble(w) < _by_trouble(worst):
                worst = w
    if not is_throttled:
        most = yield from _waits_most(windows)
        if most is not None:
            return (yield from _explain_actor(most, windows, now_ns, window_s))
    if worst is None:
        alarms = sorted(w.actor for w in windows.of_kind("alarm"))
        alarms = [called(actor) for actor in alarms]
        also = f"; {' and '.join(alarms)} {'is' if len(alarms) == 1 else 'are'} set"
        text = "nothing is blocked: no client publishes"
        return Explanation("", "", FREE, window_s, text + also if alarms else text)
    if worst.blocked_share() >= THROTTLED_SHARE:
        return (yield from _explain_actor(worst, windows, now_ns, window_s))
    waiting_most = yield from most_waiting(windows)
    whom = "the publisher" if count == 1 else f"any of {count} publishers"
    place = longest_stopped(windows)
    if place is None and waiting_most is not None:
        worst = waiting_most
    answer = yield from _explain_actor(worst, windows, now_ns, window_s)
    if worst is waiting_most and place is None:
        detail = f", but {answer.text}"
    elif place is None:
        detail = f"; {_at_ease(worst)}"
    else:
        stop = yield from _stop_of(place, windows, window_s)
        detail = f", but who waits for confirms of {called(place.actor)} waits with it: {stop}"
    return replace(answer, text=f"nothing is blocking {whom}{detail}", unaffected=count)


def _by_trouble(publisher: ActorWindow) -> tuple[int, float, str]:
    """The one that was held longest first."""
    return -publisher.blocked_ns, -publisher.rates.get("published", 0.0), publisher.actor


def _waits_most(windows: WindowIndex) -> Generator[float, None, ActorWindow | None]:
    """The connection of which most publishes wait where something is stopped, None for none."""
    most: tuple[float, str] | None = None
    for one in paced(windows.of_kind("conn")):
        if one is None:
            yield 0.0
            continue
        found = yield from waiting(one, windows)
        if found is not None and (most is None or (found.publishes, one.actor) > most):
            most = (found.publishes, one.actor)
    return None if most is None else windows[most[1]]


def _explain_actor(
    window: ActorWindow, windows: WindowIndex, now_ns: int, window_s: float
) -> Generator[float, None, Explanation]:
    share, blocked_ns = window.blocked_share(), window.blocked_ns
    waits = waits_of(window)
    own = own_share(window, waits)
    stays = yield from following(window.actor, windows)
    causes = yield from causes_of(stays, windows)
    yield 0.0
    if window.kind == "consumer" and blocked_ns == 0:
        share, causes = _consumer_cause(window, windows)
        blocked_ns = sum(cause.ns for cause in causes)
    is_throttled = share >= THROTTLED_SHARE
    held_ns = None if window.since_ns is None else max(0, now_ns - window.since_ns)
    at = yield from _waits_at(window, windows)
    is_led = _leads(window, waits, at)
    if is_throttled:
        text = _verdict(window, share, window_s, causes)
    elif is_led:
        text = about_answers(window, waits, window_s)
    elif at is None:
        text = _at_ease(window)
    else:
        stop = yield from _stop_of(windows[at.at], windows, window_s)
        text = f"{about_waiting(window, at, windows)}: {stop}"
    yield 0.0
    plain = Explanation(
        window.actor,
        _about(window),
        THROTTLED if is_throttled else FREE,
        window_s,
        text,
        blocked_share=share,
        blocked_ns=blocked_ns,
        stops=window.stops,
        longest_ns=window.longest_ns,
        held_ns=held_ns,
        causes=tuple(causes),
        notes=tuple(
            f"{called(window.actor)} {note}"
            for note in (
                *notes_on(window),
                *rate_note(window, windows),
                *letters_note(window, windows),
                *full_disk_note(window, windows),
                *uncommitted_note(window, windows),
                *waiting_publishers(window, windows),
            )
        ),
        waits=waits,
        own_share=own,
        parked_ns=window.parked_ns(),
    )
    yield 0.0
    if not is_throttled and is_led:
        return replace(plain, suggestions=advise_answers(window, waits, own, windows))
    if not is_throttled:
        return (yield from _as_root(plain, at, windows))
    if not causes:
        return plain
    return (yield from _with_surroundings(plain, causes, stays, windows))


def _as_root(
    plain: Explanation, found: Waiting | None, windows: WindowIndex
) -> Generator[float, None, Explanation]:
    """The same of who is not held, but holds others: whom, because of what, and what helps. Or of
    who waits where something is stopped: what stops it, and what helps."""
    if found is not None:
        stops = (yield from causes_of((yield from following(found.at, windows)), windows))[:1]
        helps = tuple(one for stop in stops for one in advise(stop, windows))
        behind = stops[0] if stops else None
        return replace(plain, behind=behind, suggestions=helps[:SUGGESTIONS_MAX])
    victims = yield from held_by(plain.subject, plain.subject, windows)
    cause = yield from cause_at(plain.subject, victims, windows)
    yield 0.0
    if cause is None:
        return plain
    loaded, owners, owned = loads(cause, windows)
    detail = f" ({cause.detail})" if cause.detail else ""
    return replace(
        plain,
        text=f"{called(plain.subject)} is not blocked, it is what others wait for: "
        f"{blamed(cause.root, cause.reason)}{detail}",
        behind=cause,
        victims=tuple(victims[:VICTIMS_SHOWN]),
        victims_more=max(0, len(victims) - VICTIMS_SHOWN),
        loaded=loaded,
        owners=owners,
        owned=owned,
        suggestions=advise(cause, windows)[:SUGGESTIONS_MAX],
    )


def _with_surroundings(
    plain: Explanation,
    causes: list[RootCause],
    stays: list[Stay],
    windows: WindowIndex,
) -> Generator[float, None, Explanation]:
    """What the first cause adds: its chain, who else it hits, who loads it, what helps; and what
    helps against the second, where that is large."""
    first = causes[0]
    root = first.root
    queue = windows[root].labels.get("queue") if root in windows else None
    if queue is not None:
        # An actor that waits for one consumer waits for all of its queue's.
        root = f"consumers:{name_of(queue)}"
    victims = yield from held_by(plain.subject, root, windows)
    chain = yield from chain_to(first, stays, windows)
    yield 0.0
    loaded, owners, owned = loads(first, windows)
    shared = sharing(plain.subject, windows)
    mixture = mixture_on(first, windows)
    unmixed = () if mixture is None else (unmix(mixture),)
    is_read = 2 * plain.parked_ns > plain.blocked_ns
    apart = () if is_read else part_company(plain.subject, shared, windows)
    return replace(
        plain,
        chain=chain,
        victims=tuple(victims[:VICTIMS_SHOWN]),
        victims_more=max(0, len(victims) - VICTIMS_SHOWN),
        unaffected=windows.free
        - sum(windows[part.name].blocked_share() < THROTTLED_SHARE for part in victims),
        loaded=loaded,
        owners=owners,
        owned=owned,
        shared=shared,
        suggestions=_in_turn((*unmixed, *advise(first, windows), *apart), causes[1:2], windows),
        notes=plain.notes if mixture is None else (*plain.notes, about_mixture(mixture)),
    )


def _in_turn(
    helps: tuple[str, ...], second: list[RootCause], windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    """SUGGESTIONS_MAX of them, the last one against the second cause."""
    if not second or second[0].share < SECOND_SHARE:
        return helps[:SUGGESTIONS_MAX]
    also = advise(second[0], windows)[:1]
    return (*helps[: SUGGESTIONS_MAX - len(also)], *also)


def _consumer_cause(
    window: ActorWindow, windows: Mapping[str, ActorWindow]
) -> tuple[float, list[RootCause]]:
    """A consumer is not held by a gate, but by its own window, its socket or its client."""
    trouble = consumer_trouble(window)
    share = held_share(window)
    if trouble in ("", "none") or share == 0.0:
        return 0.0, []
    reason = trouble if trouble in ("socket", "flow") else "consumer"
    cause = RootCause(
        window.actor,
        reason,
        consumer_detail(window, windows),
        round(share * window.window_ns),
        1.0,
        (window.actor,),
    )
    return share, [cause]


def _verdict(window: ActorWindow, share: float, window_s: float, causes: list[RootCause]) -> str:
    subject = window.actor
    held = was_held(subject, window.blocked_ns, window.parked_ns())
    text = f"{called(subject)} {held} {percent(share)} of the last {window_s:g} s"
    if not causes:
        return text
    cause = causes[0]
    detail = f" ({cause.detail})" if cause.detail else ""
    if cause.root == subject:
        return f"{text}: {cause.detail or cause.reason}"
    return f"{text}, {percent(cause.share)} of that by {blamed(cause.root, cause.reason)}{detail}"


def _waits_at(window: ActorWindow, windows: WindowIndex) -> Generator[float, None, Waiting | None]:
    """The stopped place where publishes of one who is not held wait, None if there is none."""
    return (yield from waiting(window, windows)) if window.blocked_ns == 0 else None


def _leads(window: ActorWindow, waits: tuple[Wait, ...], at: Waiting | None) -> bool:
    """Whether its waits say more than that it is not held: what waits where something is stopped
    has a cause beyond them. at: of `_waits_at`."""
    return window.kind in ("conn", "chan") and waits_long(waits) and at is None


def _stop_of(
    place: ActorWindow, windows: WindowIndex, window_s: float
) -> Generator[float, None, str]:
    """For how much of the time a queue or channel was stopped, and because of whom. In steps."""
    causes = yield from causes_of((yield from following(place.actor, windows)), windows)
    return _verdict(place, place.blocked_share(), window_s, causes)


def _at_ease(window: ActorWindow) -> str:
    """A sentence on an actor that is not throttled."""
    who = called(window.actor)
    if window.blocked_ns > 0:
        held = f"{who} was blocked {percent(window.blocked_share())}, below {percent(0.05)}"
    else:
        held = f"{who} is not blocked"
    times = window.times
    if window.kind == "queue":
        detail = f"; {queue_detail(window)}" if window.numbers.get("ready", 0.0) > 0 else ""
        return f"{held}: busy {state_share(window, times.busy_ns)}{detail}"
    if window.kind == "consumer":
        taken = window.rates.get("acked", 0.0)
        flying = amount(window.numbers.get("unacked", 0))
        return f"{held}: it acks {rate(taken)}, {flying} in flight"
    state = dominant_state(window)
    sends = ""
    if window.kind in ("conn", "chan") and "published" in window.rates:
        sent = window.rates["published"]
        sends = f", it simply sends {rate(sent)}" if sent > 0 else ", it publishes nothing"
    if state == "idle":
        return f"{held}: idle {state_share(window, times.idle_ns)}{sends}"
    if state == "":
        return held
    ns = times.busy_ns if state == "busy" else times.waiting_ns
    return f"{held}: {state} {state_share(window, ns)}{sends}"


def _about(window: ActorWindow) -> str:
    labels = window.labels
    parts = [clean_name(labels[key]) for key in ("name", "peer") if key in labels]
    parts = [part for part in parts if part != name_of(window.actor)]
    if "user" in labels:
        parts.append(f"user {labels['user']}")
    if labels.get("vhost", "/") != "/":
        parts.append(f"vhost {labels['vhost']}")
    parts.append(clean_name(labels.get("client", "")))
    return ", ".join(part for part in parts if part)
