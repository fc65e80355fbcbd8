"""What helps who waits for answers: more of them in flight, and the line of code that does it.

With k in flight one sync answers for all of them (group commit), so that
    rate = k / (sync + k * (the client's time for one + ours without the sync))
Without a disk the client goes on while we work, so that the slower of the two is the limit.
"""

from collections.abc import Mapping
from typing import Final

from penstock.explain.answers import COMMIT, CONFIRMS, RETURN
from penstock.explain.explanation import Wait
from penstock.explain.roots import BUSY_LOOP_SHARE, connection_of, processor_share
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.rates import NS_PER_S
from penstock.telemetry.words import amount, duration, percent, rate

IN_FLIGHT: Final = 20
"""What is proposed to who has fewer than a quarter of it; else four times as many."""
IN_FLIGHT_MOST: Final = 500
"""Who has more in flight than this needs no more."""
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
