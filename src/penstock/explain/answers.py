"""What a client waited for in a window, and which stage of the way each wait was spent in.

Of a connection or channel: its answers (telemetry/answer_times); of a consumer: the next delivery,
while messages were ready for it. What is left of the window is the client's own time, which goes
from an answer to the next request.
"""

from collections.abc import Mapping
from typing import Final

from penstock.explain.explanation import THROTTLED_SHARE, Wait
from penstock.explain.taking import GIVEN_COUNT, GIVEN_NS, answer_share
from penstock.telemetry.actor_window import SENT, WAIT_MOST, WAITED, ActorWindow
from penstock.telemetry.answer_times import STAGE_NAMES
from penstock.telemetry.rates import NS_PER_S
from penstock.telemetry.words import amount, called, duration, percent, rate

CONFIRMS: Final = "confirms"
RETURN: Final = "basic.return"
COMMIT: Final = "tx.commit-ok"
DELIVERY: Final = "basic.deliver"
OTHERS_SHOWN: Final = 2
MOSTLY: Final = 0.5
STAGE_SHOWN: Final = 0.01
"""A stage with less of the wait is left out of the text."""

_STAGES: Final = {
    "read": "until it is read",
    "channel": "in its channel",
    "queue": "in the queue",
    "store": "behind the sync before",
    "sync": "the sync of the disk",
    "answer": "until the answer is written",
}


def waits_of(window: ActorWindow) -> tuple[Wait, ...]:
    """Largest first; their shares sum to at most 1."""
    if window.window_ns <= 0:
        return ()
    if window.kind == "consumer":
        return _wait_of_consumer(window)
    found = []
    for key, ns_per_s in window.rates.items():
        if key.startswith(WAITED) and key.endswith(":ns") and ns_per_s > 0:
            answer = key.removeprefix(WAITED).removesuffix(":ns")
            found.append(_wait(answer, ns_per_s / NS_PER_S, window))
    # A wait that ran when the window began may be counted whole.
    total = sum(wait.share for wait in found)
    if total > 1.0:
        found = [_scaled(wait, total) for wait in found]
    return tuple(sorted(found, key=lambda wait: (-wait.share, wait.answer)))


def _wait(answer: str, share: float, window: ActorWindow) -> Wait:
    prefix = f"{WAITED}{answer}:"
    rates = window.rates
    count_per_s = max(0.0, rates.get(f"{prefix}count", 0.0))
    count = max(1, round(count_per_s * window.window_ns / NS_PER_S))
    mean_ns = round(share * window.window_ns / count)
    flying = rates.get(f"{prefix}flying", 0.0) / count_per_s if count_per_s > 0 else 1.0
    parts = [max(0.0, rates.get(prefix + name, 0.0)) for name in STAGE_NAMES]
    most = round(window.numbers.get(WAIT_MOST + answer, 1.0))
    return Wait(
        answer, share, count, mean_ns, max(1.0, flying), max(1, most), _split(mean_ns, parts)
    )


def _split(mean_ns: int, parts: list[float]) -> tuple[tuple[str, int], ...]:
    """`mean_ns` in the proportions of `parts`, without losing a nanosecond."""
    total = sum(parts)
    if total <= 0:
        return (("answer", mean_ns),)
    ends, passed = [], 0.0
    for part in parts:
        passed += part
        ends.append(round(mean_ns * passed / total))
    lengths = [end - start for start, end in zip([0, *ends], ends, strict=False)]
    return tuple((name, ns) for name, ns in zip(STAGE_NAMES, lengths, strict=True) if ns > 0)


def _scaled(wait: Wait, by: float) -> Wait:
    mean_ns = round(wait.mean_ns / by)
    parts = dict(wait.stages)
    return Wait(
        wait.answer,
        wait.share / by,
        wait.count,
        mean_ns,
        wait.in_flight,
        wait.most,
        _split(mean_ns, [float(parts.get(name, 0)) for name in STAGE_NAMES]),
    )


def _wait_of_consumer(window: ActorWindow) -> tuple[Wait, ...]:
    given = window.rates.get(GIVEN_COUNT, 0.0)
    # What ran when the window began counts whole.
    share = min(1.0 - answer_share(window), window.rates.get(GIVEN_NS, 0.0) / NS_PER_S)
    if given <= 0 or share <= 0:
        return ()
    count = max(1, round(given * window.window_ns / NS_PER_S))
    mean_ns = round(share * window.window_ns / count)
    flying = max(1.0, window.numbers.get("unacked", 1.0))
    return (Wait(DELIVERY, share, count, mean_ns, flying, round(flying), (("queue", mean_ns),)),)


def own_share(window: ActorWindow, waits: tuple[Wait, ...]) -> float:
    """Share of the window that was the client's own: it neither waited for us nor was held. Of a
    consumer: what it had a full window for, from delivery to ack."""
    if window.kind == "consumer":
        return answer_share(window)
    waited = sum(wait.share for wait in waits)
    return max(0.0, 1.0 - waited - window.blocked_share())


def waits_long(waits: tuple[Wait, ...]) -> bool:
    """Whether the waits are worth being said before anything else."""
    return sum(wait.share for wait in waits) >= THROTTLED_SHARE


def most_waiting(windows: Mapping[str, ActorWindow]) -> ActorWindow | None:
    """The connection that waits most for answers to what it publishes, None if none does."""
    found = []
    for actor, window in windows.items():
        if window.kind == "conn" and window.rates.get("published", 0.0) > 0:
            waits = waits_of(window)
            if waits_long(waits):
                found.append((sum(wait.share for wait in waits), actor))
    return windows[max(found)[1]] if found else None


def waiting_publishers(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """Of a queue: which of its publishers wait for its answers most of the time, as a note."""
    if window.kind != "queue":
        return ()
    found = []
    for key, sent in window.rates.items():
        publisher = windows.get(key.removeprefix(SENT)) if key.startswith(SENT) else None
        if sent > 0 and publisher is not None:
            waits = waits_of(publisher)
            if waits and waits[0].share >= MOSTLY and waits[0].answer in (CONFIRMS, COMMIT):
                found.append((-waits[0].share, called(publisher.actor), waits[0].answer))
    return tuple(
        f"is published to by {who}, which waits for {answer} {percent(-share)} of the time "
        f"(penstock why connection {who})"
        for share, who, answer in sorted(found)[:OTHERS_SHOWN]
    )


def about_answers(window: ActorWindow, waits: tuple[Wait, ...], window_s: float) -> str:
    """The verdict on who waits for answers by its own choice."""
    first = waits[0]
    held = "held by nobody"
    if window.blocked_ns > 0:
        held = f"blocked {percent(window.blocked_share())}"
    also = "".join(
        f", for {wait.answer} {percent(wait.share)}" for wait in waits[1 : 1 + OTHERS_SHOWN]
    )
    return (
        f"{called(window.actor)} waits for {first.answer} {percent(first.share)} of the last "
        f"{window_s:g} s{also}, {held}: {_numbers(window, first)}"
    )


def _numbers(window: ActorWindow, wait: Wait) -> str:
    answered = wait.count / (window.window_ns / NS_PER_S)
    each = f"{duration(wait.mean_ns)} each"
    flying = amount(wait.in_flight)
    if wait.answer == COMMIT:
        publishes = "publish" if flying == "1" else "publishes"
        return f"{rate(answered)}, {each}, {flying} {publishes} in one commit"
    if wait.answer not in (CONFIRMS, RETURN):
        return f"{rate(answered)}, {each}"
    most = f" (at most {amount(wait.most)})" if wait.most > round(wait.in_flight) else ""
    sent = window.rates.get("published", answered)
    return f"it sends {rate(sent)}, {each}, {flying} in flight{most}"


def stage_words(wait: Wait) -> str:
    """`3.6 ms the sync of the disk · 40 µs in its channel`: largest first."""
    shown = [part for part in wait.stages if part[1] >= STAGE_SHOWN * wait.mean_ns]
    shown.sort(key=lambda part: -part[1])
    return " · ".join(f"{duration(ns)} {_STAGES[name]}" for name, ns in shown)


def wait_lines(waits: tuple[Wait, ...], own: float) -> list[str]:
    """The waits in stages and the client's own time, for a terminal."""
    if not waits or waits[0].answer == DELIVERY:
        return []
    lines = [f" each wait {stage_words(waits[0])}"]
    for wait in waits[1 : 1 + OTHERS_SHOWN]:
        lines.append(f" {wait.answer} {duration(wait.mean_ns)} each: {stage_words(wait)}")
    total = sum(wait.share for wait in waits)
    count = sum(wait.count for wait in waits)
    window_ns = sum(wait.mean_ns * wait.count for wait in waits) / total if total > 0 else 0.0
    between = duration(round(own * window_ns / count))
    lines.append(f" its own   {percent(own)}: {between} from an answer to what it sends next")
    return lines
