"""What a client waited for in a window, in which stage each wait was spent, and what shortens it.

Of a connection or channel: its answers (telemetry/answer_times); of a consumer: the next delivery,
while messages were ready for it. What is left of the window is the client's own time, from an
answer to the next request.

More requests in flight help, because one sync answers for all of them (group commit):
    rate = k / (sync + k * (the client's time for one + the broker's without the sync))
Without a disk the client goes on while the broker works, so the slower of the two is the limit.
"""

from collections.abc import Generator, Mapping
from typing import Final

from penstock.explain.consumer_causes import GIVEN_COUNT, GIVEN_NS, answer_share
from penstock.explain.explanation import THROTTLED_SHARE, Wait
from penstock.explain.root_causes import BUSY_LOOP_SHARE, connection_of, processor_share
from penstock.explain.window_index import WindowIndex, paced
from penstock.telemetry.actor_window import SENT, WAIT_MOST, WAITED, ActorWindow
from penstock.telemetry.answer_times import STAGE_NAMES
from penstock.telemetry.snapshots import NS_PER_S
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
IN_FLIGHT: Final = 20
"""What is proposed to who has fewer than a quarter of it; else four times as many."""
IN_FLIGHT_MOST: Final = 500
"""Who has more in flight than this needs no more."""
STEP_WAITS: Final = 16
"""Connections whose waits are looked at in one step."""
DISK_SHARE: Final = 0.5
WORTH: Final = 1.2
"""An advice that promises less than so many times the rate is not given."""

_CLIENTS: Final = (
    (
        "pika",
        "pika's BlockingConnection waits for each confirm: use pika.SelectConnection, or aio-pika: "
        "await asyncio.gather(*(exchange.publish(one, key) for one in {k} messages))",
    ),
    (
        "aiormq",
        "await the publishes together, not one by one: "
        "await asyncio.gather(*(exchange.publish(one, key) for one in {k} messages))",
    ),
    (
        "py-amqp",
        "kombu and Celery wait for each confirm with confirm_publish: publish from {k} connections "
        "of a pool, or leave it out of the transport options if messages may be lost",
    ),
    ("penstock client", "publish {k} before the confirm of the first is waited for"),
    ("amqp091-go", "use PublishWithDeferredConfirm, and Wait() for every {k} together"),
    ("amqp 0.9.1 client", "use PublishWithDeferredConfirm, and Wait() for every {k} together"),
    ("amqplib", "on a ConfirmChannel: await channel.waitForConfirms() after every {k} publishes"),
)
_PLATFORMS: Final = (
    ("java", "basicPublish {k} times, then channel.waitForConfirmsOrDie(5000) once"),
    (".net", "await Task.WhenAll(...) over {k} BasicPublishAsync, not each of them"),
)
_GENERIC: Final = "publish {k} before the confirm of the first is waited for"


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


def most_waiting(windows: WindowIndex) -> Generator[float, None, ActorWindow | None]:
    """The connection that waits most for answers to what it publishes, None if none does. In
    steps of STEP_WAITS."""
    most = (0.0, "")
    for window in paced(windows.of_kind("conn"), STEP_WAITS):
        if window is None:
            yield 0.0
        elif window.rates.get("published", 0.0) > 0:
            waits = waits_of(window)
            if waits_long(waits):
                most = max(most, (sum(wait.share for wait in waits), window.actor))
    return windows.get(most[1])


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
    held = "not blocked"
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


def advise_answers(
    window: ActorWindow, waits: tuple[Wait, ...], own: float, windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    """Best first; none where nothing that is known would help. own: the client's share, 0..1."""
    first = waits[0]
    if first.answer in (CONFIRMS, RETURN, COMMIT):
        return _about_publishes(window, first, own, windows)
    if first.answer == "basic.get-ok":
        return ("consume (basic.consume) instead of asking with basic.get: messages are then sent "
                "before they are asked for",)  # fmt: skip
    sent = window.rates.get("published", 0.0)
    faster = ""
    if sent > 0 and first.share < 1.0:
        then = rate(sent / (1.0 - first.share))
        faster = f": without it about {then} instead of {rate(sent)}"
    method = first.answer.removesuffix("-ok")
    if method.endswith((".declare", ".bind")):
        return (f"do {method} once, when the channel is opened, and not each time{faster}",)
    if method in ("channel.open", "channel.close", "basic.consume", "basic.cancel"):
        return (f"keep channels and consumers open instead of {method} each time{faster}",)
    return (f"send {method} less often: each is waited for{faster}",)


def _about_publishes(
    window: ActorWindow, wait: Wait, own: float, windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    found: list[str] = []
    if wait.answer == RETURN:
        found.append("bind a queue to what it publishes, or publish without `mandatory`: nothing "
                     "takes these messages, and each is sent back")  # fmt: skip
    flying = wait.in_flight
    sent = window.rates.get("published", 0.0)
    if flying > IN_FLIGHT_MOST or sent <= 0:
        return tuple(found)
    k = IN_FLIGHT if flying <= IN_FLIGHT / 4 else round(4 * flying)
    s_of_disk = wait.stage_ns("store", "sync") / NS_PER_S
    own_s, ours_s = _times_of_one(window, wait, own, s_of_disk)
    is_disk = s_of_disk * NS_PER_S >= DISK_SHARE * wait.mean_ns
    slower_s = s_of_disk / k + own_s + ours_s if is_disk else max(own_s, ours_s, 1e-9)
    then = 1.0 / slower_s
    busy = processor_share(windows)
    if then < WORTH * sent or (not is_disk and busy >= BUSY_LOOP_SHARE):
        if busy >= BUSY_LOOP_SHARE:
            found.append(f"the broker is busy {percent(busy)}: more in flight would help little")
        return tuple(found)
    each = duration(round((own_s + ours_s) * NS_PER_S))
    if is_disk:
        disk = duration(round(s_of_disk * NS_PER_S))
        how = f"one sync answers for all: {amount(k)} ÷ ({disk} + {amount(k)} × {each})"
    else:
        its, ours = duration(round(own_s * NS_PER_S)), duration(round(ours_s * NS_PER_S))
        how = f"it goes on while we work: of one message {its} are its, {ours} ours"
    if wait.answer == COMMIT:
        found.append(
            f"commit {amount(k)} publishes at once instead of {amount(flying)}: about "
            f"{rate(then)} instead of {rate(sent)} ({how})"
        )
        found.append("or use confirms (confirm.select) with as many in flight; a commit is dearer")
        return tuple(found)
    found.append(
        f"keep {amount(k)} in flight instead of {amount(flying)}: about {rate(then)} instead of "
        f"{rate(sent)} ({how})"
    )
    found.append(client_line(window, windows).format(k=amount(k)))
    if is_disk:
        found.append(
            f"see what this broker does with it: penstock perf --flag persistent --confirm {k} "
            f"--time 10, and the same with --confirm {round(flying)}"
        )
    return tuple(found)


def _times_of_one(
    window: ActorWindow, wait: Wait, own: float, s_of_disk: float
) -> tuple[float, float]:
    """Seconds the client, and we without the disk, need for one publish."""
    sent = window.rates["published"]
    answered = wait.count / (window.window_ns / NS_PER_S)
    in_one = max(1.0, sent / answered)
    return own / sent, max(0.0, wait.mean_ns / NS_PER_S - s_of_disk) / in_one


def client_line(window: ActorWindow, windows: Mapping[str, ActorWindow]) -> str:
    """What does it in the client's own words, with `{k}` for how many."""
    connection = windows.get(connection_of(window.actor), window)
    client = connection.labels.get("client", "").lower()
    for product, line in _CLIENTS:
        if product in client:
            return line
    platform = connection.labels.get("platform", "").lower()
    for name, line in _PLATFORMS:
        if name in platform:
            return line
    return _GENERIC
