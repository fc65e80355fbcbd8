"""What to do about a cause: at most two suggestions, each drawn from the cause's own numbers."""

from collections.abc import Mapping
from typing import Final

from penstock.base.quantities import show_rate
from penstock.explain.alarm_advice import about_alarm
from penstock.explain.consumer_causes import (
    PAUSED,
    SINGLE_ACTIVE,
    about_lag,
    about_leases,
    ack_time_ns,
    consumer_trouble,
    rate_without_waits,
)
from penstock.explain.dead_letter_causes import LETTERS
from penstock.explain.explanation import ActorShare, RootCause
from penstock.explain.remarks import consumers_on
from penstock.explain.root_causes import state_share, sync_time_ns
from penstock.explain.window_index import indexed
from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import amount, called, duration, percent, rate

USED_UP: Final = 0.8
"""A limit of which less passed was not the one that held."""
WORTH: Final = 1.1
"""A larger prefetch is worth it from so many times the rate on."""


def advise(cause: RootCause, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    """Best first; none where nothing that is known would help."""
    window = windows.get(cause.root)
    who = called(cause.root)
    if cause.reason in ("alarm:memory", "alarm:disk"):
        return about_alarm(cause.reason, cause.detail, windows)
    if cause.reason == "circle":
        return _about_circle(cause)
    if cause.reason == "socket":
        return (f"look at the network and the reading thread behind {who}: {cause.detail}",)
    if cause.reason == "flow":
        return _about_flow(who, window)
    if cause.reason == "rate":
        return _about_rate(cause, window)
    if cause.reason == "debt":
        return _about_debt(cause, windows)
    if cause.reason == "delay":
        return _about_delay(who, window)
    if cause.reason == "consumer":
        return about_leases(window, windows) or _about_consumer(who, window, windows)
    if cause.reason == "lag":
        return about_lag(window, cause.root)
    if window is None:
        return ()
    if cause.reason == LETTERS:
        return (
            f"declare and bind what {who} are for: {cause.detail}",
            "or take x-dead-letter-exchange away where dead messages may be lost",
        )
    if cause.reason == "cpu":
        return _about_cpu(who, window)
    if cause.reason == "room":
        return (f"free space on the broker's disk: {who} goes on by itself when there is some",)
    if cause.reason == "disk":
        return _about_disk(who, window)
    if cause.reason == "replica":
        return (
            "look at the disk of that node and at the link to it, penstock cluster status: "
            f"{cause.detail}",
            "what is confirmed has to be on the disks of a majority: more credit will not help",
        )
    if cause.reason == "mirror":
        return (
            "look at the disk of that node and at the link to it, penstock cluster status: "
            f"{cause.detail}",
            "a mirror that stays late is left out by itself; or take it out of ha-params",
        )
    if cause.reason in ("stuck", "slow"):
        return _about_mailbox(cause, who)
    if cause.reason == "credit":
        idle = state_share(window, window.times.idle_ns)
        return (f"raise the credit of the hop to {who}: it was idle {idle} of the window",)
    return ()


def part_company(
    subject: str, shared: tuple[ActorShare, ...], windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    """Isolation: who should not share the connection `subject`, and what that costs now."""
    if shared:
        names = ", ".join(called(part.name) for part in shared)
        lost = percent(shared[0].share)
        return (
            f"give {names} a connection of its own: nothing but the shared socket held it, for "
            f"{lost} of the time",
        )
    consuming = consumers_on(subject, windows)
    if consuming:
        return (
            f"consume over another connection than the one that publishes: the acks of "
            f"{called(consuming[0])} wait behind held publishes",
        )
    return ()


def _about_flow(who: str, window: ActorWindow | None) -> tuple[str, ...]:
    if window is not None and window.kind in ("conn", "chan"):
        return (f"let the client of {who} stop publishing while channel.flow says so",)
    return (f"let the client of {who} send channel.flow(active=true): it asked for a pause itself",)


def _about_circle(cause: RootCause) -> tuple[str, ...]:
    consumers = [actor for actor in cause.path if actor.startswith("consumers:")]
    if not consumers:
        return (f"report this as a bug: {' → '.join(cause.path)} wait for one another",)
    return (
        f"give {called(consumers[0])} a helper that only consumes: who empties the queue publishes "
        "to it too, and waits for itself",
    )


def _about_mailbox(cause: RootCause, who: str) -> tuple[str, ...]:
    if cause.reason == "slow":
        return (
            f"spread the load of {who} over several queues, or look at what slows it down: "
            f"{cause.detail}",
        )
    return (
        f"report this as a bug, with a record (penstock record save): {who} is alive and takes "
        "nothing; the watchdog names its hops in the log",
        f"delete and declare {who} again if its messages may be lost",
    )


def _about_rate(cause: RootCause, window: ActorWindow | None) -> tuple[str, ...]:
    scope, _, name = cause.root.removeprefix("rate:").partition(":")
    numbers = {} if window is None else window.numbers
    passed = 0.0 if window is None else window.rates.get("published", 0.0)
    messages, bytes_ = numbers.get("messages_per_s", 0.0), numbers.get("bytes_per_s", 0.0)
    # Of two limits the one that is not used up is not the one that holds.
    is_of_bytes = bytes_ > 0 and (messages == 0 or passed < USED_UP * messages)
    unit = "bytes" if is_of_bytes else "messages"
    limit = bytes_ if is_of_bytes else messages
    key = f"rate.connection.{unit}" if scope == "conn" else f"rate.{scope}.{unit}:{name}"
    detail = f" ({cause.detail})" if cause.detail else ""
    twice = show_rate(2 * limit) if limit > 0 else "off"
    return (
        f"raise the limit if this load is meant to pass{detail}: penstock flow set {key}={twice}",
        "spread the publishing over time: what comes in bursts waits, and nothing is lost",
    )


def _about_delay(who: str, window: ActorWindow | None) -> tuple[str, ...]:
    overdue_for = "" if window is None else window.labels.get("overdue_for", "")
    if overdue_for != "":
        return (f"see why {called(overdue_for)} takes nothing: penstock why {called(overdue_for)}",)
    return (
        f"delay less, or spread what is delayed over more exchanges than {who}",
        "raise delayed_messages_max or delayed_bytes_max if there is memory for so many",
    )


def _about_cpu(who: str, window: ActorWindow) -> tuple[str, ...]:
    busy = state_share(window, window.times.busy_ns)
    passing = window.rates.get("published", 0.0)
    load = f" with {rate(passing)}" if passing > 0 else ""
    return (
        f"publish fewer, larger messages through {who}: it was busy {busy}{load}, and its work "
        "is by the message",
        f"move part of the load of {who} to another node: an actor works on one core",
    )


def _about_disk(who: str, window: ActorWindow) -> tuple[str, ...]:
    sync_ns = sync_time_ns(window)
    cost = f": one takes {duration(sync_ns)}" if sync_ns > 0 else ""
    return (
        f"let more messages share one sync, publish with confirms in batches{cost}",
        f"put the data of {who} on a faster disk; more credit will not help, the disk is the limit",
    )


def _about_bounds(queue: str, window: ActorWindow | None) -> str:
    """How a queue loses messages instead of holding publishers, which it does not do yet. window:
    of the queue or of its consumers together; its rules are in the labels."""
    rules = "" if window is None else window.labels.get("rules", "")
    if "overflow backpressure" in rules:
        return f"let {queue} drop its oldest if they may be lost: x-overflow drop-head"
    missing = [name for name in ("max-length", "message-ttl") if f"{name} " not in rules]
    names = " or ".join(f"x-{name}" for name in missing)
    if not names:
        return f"lower the x-max-length of {queue} if its messages may be lost"
    return f"bound {queue} with {names} if its messages may be lost"


def _about_consumer(
    who: str, window: ActorWindow | None, windows: Mapping[str, ActorWindow]
) -> tuple[str, ...]:
    if window is None and who.startswith("the consumers of "):
        queue = who.removeprefix("the consumers of ")
        return (
            f"start a consumer on {queue}: it has none",
            _about_bounds(queue, windows.get(queue.replace("queue ", "queue:", 1))),
        )
    if window is None:
        return (f"let {who} ack sooner, or add consumers beside it",)
    trouble = consumer_trouble(window)
    ready = amount(window.numbers.get("ready", 0.0))
    if trouble == "none":
        who = who.removeprefix("the consumers of ")
        return (
            f"start a consumer on {who}: {ready} messages are ready and no consumer takes them",
            _about_bounds(who, window),
        )
    queue = who.removeprefix("the consumers of ").removeprefix("queue ")
    if trouble == PAUSED:
        return (f"let its consumers go on: penstock queues resume {queue}",)
    if trouble == "requeue":
        return (
            f"reject without requeue what cannot be worked on: the consumers of queue {queue} are "
            f"given the same messages again, {rate(window.rates['redelivered'])}",
            f"bound how often: x-delivery-limit on queue {queue}, with x-dead-letter-exchange",
        )
    if SINGLE_ACTIVE in window.labels:
        return (
            f"let the one consumer that queue {queue} gives messages to ack sooner, or end it: it "
            "is the single active one, and those beside it are given nothing",
        )
    taken = window.rates.get("acked", 0.0)
    coming = window.rates.get("published", 0.0)
    compared = f": {rate(taken)} are acked" if taken > 0 else ""
    if taken > 0 and coming > 0:
        compared += f", {rate(coming)} come in"
    if window.actor.startswith("consumers:"):
        beside = f"on queue {window.actor.partition(':')[2]}"
    else:
        beside = f"beside {who}" if window.kind == "consumer" else f"on {who}"
    first = f"add consumers {beside}{compared}"
    unacked = window.numbers.get("unacked", 0.0)
    if taken == 0 and unacked > 0:
        whose = f"the consumers of {who}" if window.kind == "queue" else who
        return (f"let {whose} ack: {amount(unacked)} deliveries have no answer", first)
    then = rate_without_waits(window)
    if then > 0 and then >= WORTH * taken:
        return (
            f"raise the prefetch from 1 to 20: the next message is then there when it acks, at "
            f"least {rate(then)} instead of {rate(taken)} (pika: basic_qos(prefetch_count=20))",
            first,
        )
    prefetch = window.numbers.get("prefetch", 0.0)
    answer_ns = ack_time_ns(window)
    if prefetch <= 0:
        return (first,)
    each = f"; now an ack takes {duration(answer_ns)}" if answer_ns > 0 else ""
    return (
        first,
        f"raise the prefetch from {amount(prefetch)} only if the client works on several "
        f"messages at once{each}",
    )


def _about_debt(cause: RootCause, windows: Mapping[str, ActorWindow]) -> tuple[str, ...]:
    who = called(cause.root)
    wait = f"let {who} wait for confirms before it publishes more"
    if not cause.root.startswith("conn:"):
        wait = f"raise the limit of {who} if its load is meant to be outstanding at once"
    _, most, actor = indexed(windows).debt_of(cause.root)
    if not actor:
        return (wait,)
    return (
        f"see why {called(actor)} is slow: {amount(most)} messages of {who} are outstanding there",
        wait,
    )
