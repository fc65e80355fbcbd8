"""The settings of a broker: key, unit, meaning, and how each is read and written.

    credit.KIND=400/200                    a window of every hop of a kind; credit.KIND_bytes
    account.user.high=64MiB                debt above which every user is held
    account.user.high:app@/=64MiB          user app in vhost / alone
    rate.connection.messages=1000/s        every connection
    rate.user.bytes:app=20MB/s             all connections of user app together
    rate.queue.messages:/orders=off        queue orders in vhost / (queue q in vhost v: v/q)

The settings of alarms are offered by broker/admin/alarm_watch, for the server makes their watch.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from penstock.base.errors import OperatorError
from penstock.base.limits import (
    CONSUMER_TIMEOUT_MS,
    NOTIFY_BLOCKED_MS,
    RATE_BURST_MS,
    RATE_CONNECTION_MESSAGES,
    Limit,
)
from penstock.base.quantities import (
    parse_duration_ns,
    parse_rate,
    parse_window,
    show_duration,
    show_rate,
    show_window,
)
from penstock.broker.connection.client_notifier import NotifierRules
from penstock.broker.connection.connection import Connection
from penstock.broker.connection.consumer_timeout import ConsumerTimeout
from penstock.broker.settings.hop_watch import HopWatch, hops_of
from penstock.broker.settings.ledger import LEVELS, NODE, Ledger, parse_mark
from penstock.broker.settings.rates import SCOPES, UNITS, Rates
from penstock.broker.settings.settings import Setting, Settings
from penstock.broker.vhost.context import Context
from penstock.flow.adaptive import Adaptive
from penstock.flow.credit import Credit, Window
from penstock.flow.hop import KIND_NAMES, KIND_QUEUE_STORE, Hop
from penstock.flow.overrides import with_embed_below, with_io_batch, with_soft_limit

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
MINUTE_NS: Final = 60_000_000_000
OFF: Final = "off"


# -- durations ---------------------------------------------------------------------------------


def add_client_settings(
    settings: Settings,
    timeout: ConsumerTimeout,
    rules: NotifierRules,
    look_at_clients: Callable[[], None],
) -> None:
    """Offer consumer.timeout and notify.blocked."""

    def write_timeout(text: str) -> None:
        timeout.timeout_ms = _ms_within("consumer.timeout", text, CONSUMER_TIMEOUT_MS)

    def write_notify(text: str) -> None:
        ms = _ms_within("notify.blocked", text, NOTIFY_BLOCKED_MS)
        rules.notify_ns = ms * NS_PER_MS
        if ms == 0:
            # No client is looked at any more, so those that have been told must hear of it now.
            look_at_clients()

    settings.add(
        Setting(
            "consumer.timeout",
            "duration or off",
            "a channel with an older unanswered delivery is closed; looked at once a minute",
            lambda: _duration_or_off(timeout.timeout_ms * NS_PER_MS),
            write_timeout,
        ),
        Setting(
            "notify.blocked",
            "duration or off",
            "connection.blocked names the queue when publishes have been held for longer",
            lambda: _duration_or_off(rules.notify_ns),
            write_notify,
        ),
    )


def add_watchdog_setting(settings: Settings, watch: HopWatch) -> None:
    """Offer credit.watchdog."""

    def write(text: str) -> None:
        patience_ns = parse_duration_ns(text)
        if patience_ns <= 0:
            raise OperatorError(f"credit.watchdog = {text}: must be longer than 0; write 60s")
        watch.dog.patience_ns = patience_ns

    settings.add(
        Setting(
            "credit.watchdog",
            "duration",
            "how long a hop may wait for credit, its blocker finishing nothing, before that is "
            "reported",
            lambda: show_duration(watch.dog.patience_ns),
            write,
        )
    )


def _duration_or_off(ns: int) -> str:
    return OFF if ns == 0 else show_duration(ns)


def _ms_within(key: str, text: str, limit: Limit) -> int:
    """Milliseconds, 0 for off."""
    if text.strip().lower() == OFF:
        return 0
    ms = parse_duration_ns(text) // NS_PER_MS
    if not limit.lowest <= ms <= limit.highest:
        raise OperatorError(
            f"{key} = {text} is {ms} ms, which is not within {limit.lowest}..{limit.highest} ms; "
            f"{OFF} switches it off"
        )
    return ms


# -- what the adaptive strategy aims at ----------------------------------------------------------


def add_adaptive_settings(settings: Settings, context: Context) -> None:
    """Offer target and interval of the strategy in force."""
    settings.add(
        _aim(context, "target", "delay that may stand in a mailbox before windows are cut"),
        _aim(context, "interval", "how often a window may be changed"),
    )


def _aim(context: Context, name: str, meaning: str) -> Setting:
    """name: of the strategy's attribute, without its unit."""
    key, attribute = f"adaptive.{name}", f"{name}_ns"

    def read() -> str:
        found = context.strategy
        return show_duration(getattr(found, attribute)) if isinstance(found, Adaptive) else OFF

    def write(text: str) -> None:
        found = context.strategy
        if not isinstance(found, Adaptive):
            raise OperatorError(
                f"{key} cannot be changed: strategy '{found.name}' does not adapt; start the "
                "broker with profile adaptive"
            )
        ns = parse_duration_ns(text)
        if not 10 * NS_PER_US <= ns <= MINUTE_NS:
            raise OperatorError(f"{key} = {text} is not within 10us..1m")
        setattr(found, attribute, ns)

    return Setting(key, "duration", meaning, read, write)


# -- windows of credit ---------------------------------------------------------------------------


def add_credit_settings(
    settings: Settings,
    connections: dict[str, Connection],
    store_hops: Callable[[], Iterable[Hop]],
    context: Context,
) -> None:
    """Offer the windows of every kind of hop, in messages and in bytes.

    A change reaches the hops that exist at once: a wider window gives its sender the difference, a
    narrower one takes it away, and the sender waits, its balance negative, until enough was repaid
    (scenario 120). What is under way is never touched, so no credit is lost and none comes from
    nowhere (law 1).
    """
    for kind in range(len(KIND_NAMES)):
        for unit in ("messages", "bytes"):
            settings.add(_window(connections, store_hops, context, kind, unit))


def _window(
    connections: dict[str, Connection],
    store_hops: Callable[[], Iterable[Hop]],
    context: Context,
    kind: int,
    unit: str,
) -> Setting:
    key = f"credit.{KIND_NAMES[kind]}" + ("_bytes" if unit == "bytes" else "")

    def read() -> str:
        found = context.strategy
        if not isinstance(found, Credit):
            return OFF
        window = (found.bytes_windows if unit == "bytes" else found.windows)[kind]
        return show_window(window.initial, window.more_after)

    def write(text: str) -> None:
        initial, more_after = parse_window(text)
        window = Window(initial, more_after, unit)
        found = context.strategy
        if not isinstance(found, Credit):
            raise OperatorError(
                f"{key} cannot be changed: strategy '{found.name}' has no credit; start the broker "
                "with a profile that has"
            )
        if unit == "bytes":
            found.set_windows(kind, found.windows[kind], window)
        else:
            found.set_windows(kind, window, found.bytes_windows[kind])
        hops = store_hops() if kind == KIND_QUEUE_STORE else hops_of(connections)
        for hop in hops:
            if hop.kind == kind:
                found.resize(hop)

    return Setting(
        key,
        f"{unit}, INITIAL/MORE_AFTER or off",
        f"how much may be under way on every hop from {KIND_NAMES[kind].replace('_', ' to ')}, and "
        "after how much of it is done more is granted",
        read,
        write,
    )


def add_rabbit_settings(settings: Settings, context: Context, follow: Callable[[], None]) -> None:
    """Offer RabbitMQ's two settings of paging under its own names, in profiles that emulate it.
    follow: called when the profile has another one."""

    def write_batch(text: str) -> None:
        context.profile = with_io_batch(context.profile, text)
        follow()

    def write_embed(text: str) -> None:
        context.profile = with_embed_below(context.profile, text)
        follow()

    if not context.profile.pages_by_counts():
        return
    settings.add(
        Setting(
            "msg_store_io_batch_size",
            "positions",
            "so many places of paged messages at least leave memory together",
            lambda: str(context.profile.io_batch),
            write_batch,
        ),
        Setting(
            "queue_index_embed_msgs_below",
            "bytes, 0 for none",
            "smaller messages cost no credit on their way to the store, and stay in memory longer",
            lambda: str(context.profile.embed_below),
            write_embed,
        ),
    )


def add_soft_limit_setting(settings: Settings, context: Context) -> None:
    """Offer RabbitMQ's soft limit of quorum queues. A change holds for what is handed over next;
    who is held by a smaller one goes on with the next publish that is safe."""

    def write(text: str) -> None:
        context.profile = with_soft_limit(context.profile, text)
        context.soft_limit.limit = context.profile.soft_limit

    settings.add(
        Setting(
            "quorum_commands_soft_limit",
            "publishes, 0 for no limit",
            "a channel with more than these on their way to one quorum queue is held",
            lambda: str(context.profile.soft_limit),
            write,
        )
    )


# -- limits of accounts --------------------------------------------------------------------------


def add_ledger_settings(settings: Settings, ledger: Ledger) -> None:
    """Offer the limits of every level of accounts, in bytes and in messages.

    What is owed when a limit is set counts at once: the page is held or let go in the same moment.
    """
    for level in LEVELS:
        settings.add(_mark(ledger, level, True, ""), _mark(ledger, level, False, ""))


def _mark(ledger: Ledger, level: str, is_bytes: bool, name: str) -> Setting:
    """name: "" for all pages of `level`."""
    key = f"account.{level}.high" + ("" if is_bytes else "_messages")

    def read() -> str:
        return ledger.marks_of(level, name).mark(is_bytes).show()

    def write(text: str) -> None:
        mark = parse_mark(text, ledger.strategy)
        ledger.set_marks(level, name, ledger.marks_of(level, name).with_mark(is_bytes, mark))

    def alone(wanted: str) -> Setting:
        if wanted == "":
            raise OperatorError(f"{key} cannot be set for '' alone; set {key}")
        found = _mark(ledger, level, is_bytes, wanted)
        # Said now, and not when it is written, whether there is such a page.
        found.read()
        return found

    return Setting(
        key + (f":{name}" if name else ""),
        f"{'bytes' if is_bytes else 'messages'}, HIGH, HIGH/LOW or off",
        f"work in progress above which {'the node' if level == NODE else 'a ' + level} is held "
        "until it has come down to LOW",
        read,
        write,
        partial(ledger.named, level) if name == "" else list,
        alone if level != NODE and name == "" else None,
    )


# -- rates ---------------------------------------------------------------------------------------

_RATE_OF: Final = {
    "connection": "each connection may publish",
    "user": "all connections of one user may publish together",
    "vhost": "all connections to one virtual host may publish together",
    "queue": "one queue may be given",
}


def add_rate_settings(settings: Settings, rates: Rates) -> None:
    """Offer every rate limit, and how large bursts may be."""

    def write_burst(text: str) -> None:
        burst_ns = parse_duration_ns(text)
        lowest, highest = RATE_BURST_MS.lowest, RATE_BURST_MS.highest
        if not lowest * NS_PER_MS <= burst_ns <= highest * NS_PER_MS:
            raise OperatorError(f"rate.burst={text}: {lowest}ms..{highest}ms")
        rates.set_burst(burst_ns)

    settings.add(
        Setting(
            "rate.burst",
            "duration",
            "how much of its rate a limit lets pass at once after a pause",
            lambda: show_duration(rates.burst_ns),
            write_burst,
        )
    )
    for scope in SCOPES:
        settings.add(*(_rate(rates, scope, unit, "") for unit in UNITS))


def _rate(rates: Rates, scope: str, unit: str, name: str) -> Setting:
    """name: "" for all of `scope` without a limit of their own."""
    family = f"rate.{scope}.{unit}"
    key = f"{family}:{name}" if name else family
    is_family = name == "" and scope != "connection"

    def read() -> str:
        limit = rates.limit_of(scope, name)
        return show_rate(limit.messages if unit == "messages" else limit.bytes)

    def write(text: str) -> None:
        highest = RATE_CONNECTION_MESSAGES.highest
        is_off = text.strip().lower() in (OFF, "0", "0/s")
        try:
            per_second = parse_rate(text)
        except OperatorError:
            per_second = -1.0
        if not is_off and not 1 <= per_second <= highest:
            raise OperatorError(
                f"{key}={text}: write a rate of 1/s..{highest}/s, as 500/s, 5MB/s, or off"
            )
        rates.set_limit(scope, name, unit, int(per_second))

    def alone(wanted: str) -> Setting:
        if scope == "queue" and "/" not in wanted:
            raise OperatorError(
                f"{key}:{wanted}: write VHOST/QUEUE, or /{wanted} for queue {wanted} in vhost /"
            )
        return _rate(rates, scope, unit, wanted)

    return Setting(
        key,
        f"{unit}/s or off",
        f"how many {unit} a second {_RATE_OF[scope]}"
        + (f"; {family}:NAME for one alone" if is_family else ""),
        read,
        write,
        partial(rates.named, scope) if name == "" else list,
        alone if is_family else None,
    )
