"""Numbers and names in words: shares, durations, sizes, and actors as people call them."""

from typing import Final

from penstock.telemetry.snapshots import NS_PER_S

NS_PER_MS: Final = 1_000_000
NS_PER_US: Final = 1_000

_WAITS_FOR: Final = {
    "credit": "waits for credit from",
    "pending": "waits for replies from",
    "mirror": "waits for mirrors of what it sent to",
    "confirms": "waits for confirms of",
    "unfinished": "waits with unfinished messages for memory of",
    "parked": "has publishes parked in",
    "depth": "waits for room in",
    "full": "waits for room in",
    "lag": "waits for the progress of",
    "prefetch": "waits for acks from",
    "socket": "waits for the socket of",
    "read": "waits for a read from the disk by",
    "alarm": "is stopped by",
    "memory": "is stopped by",
    "disk": "is stopped by",
    "debt": "has used up the limit of",
    "rate": "is held by",
    "flow": "did not heed channel.flow of",
    "forwards": "ack only after their own publishes by",
    "letters": "waits for",
    "expired": "wait for room in",
    "late": "wait for room in",
    "owes": "has used up its limit with what waits for",
}


def percent(share: float) -> str:
    """`61 %` for 0.61; `<1 %` for what is little but not nothing."""
    if 0.0 < share < 0.01:
        return "<1 %"
    return f"{share * 100:.0f} %"


def duration(ns: int) -> str:
    """Nanoseconds with the unit that suits them: `6.1 s`, `94 ms`, `1.4 ms`, `12 µs`, `3 h 2 min`.

    The unit is chosen after rounding, so there is never a `1000 ms`.
    """
    if ns < 0:
        return f"-{duration(-ns)}"
    if ns < NS_PER_US:
        return f"{ns} ns" if ns else "0 s"
    if ns < 999_500:
        return f"{ns / NS_PER_US:.0f} µs"
    if ns < 9_950_000:
        return f"{ns / NS_PER_MS:.1f} ms"
    if ns < 999_500_000:
        return f"{ns / NS_PER_MS:.0f} ms"
    if ns < 99_950_000_000:
        return f"{ns / NS_PER_S:.1f} s"
    if ns < 119_500_000_000:
        return f"{ns / NS_PER_S:.0f} s"
    minutes = round(ns / (60 * NS_PER_S))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def rate(per_second: float) -> str:
    """Messages per second: `14/s`, `4.1k/s`, `0.5/s`."""
    if per_second >= 999.5:
        return f"{per_second / 1000:.1f}k/s"
    if per_second >= 9.95 or per_second == 0:
        return f"{per_second:.0f}/s"
    return f"{per_second:.1f}/s"


def size(count: float) -> str:
    """Bytes in decimal units: `512 bytes`, `1.9 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor * 0.9995:
            return f"{count / factor:.1f} {unit}"
    return f"{count:.0f} bytes"


def amount(count: float) -> str:
    """A whole number with thin groups of three: `18 204`."""
    return f"{count:,.0f}".replace(",", " ")


def kind_of(actor: str) -> str:
    """The kind in front of an actor's id: `queue` of `queue:/orders`."""
    return actor.partition(":")[0]


def name_of(actor: str) -> str:
    """The id without its kind: `/orders` of `queue:/orders`."""
    kind, separator, name = actor.partition(":")
    return name if separator else kind


def called(actor: str) -> str:
    """An actor as a sentence names it: `web-7`, `queue /orders`, `memory alarm`."""
    kind, name = kind_of(actor), name_of(actor)
    if kind in ("conn", "chan"):
        return name
    if kind == "consumer":
        tag, _, holder = name.rpartition("@conn:")
        return f"consumer {tag}@{holder}" if tag else f"consumer {name}"
    if kind == "alarm":
        return f"the {name} alarm"
    if kind == "socket":
        return f"the socket of {name}"
    if kind == "rate":
        return f"the rate limit of {called(name)}"
    if kind == "consumers":
        return f"the consumers of queue {name}"
    if kind == "dead":
        return f"the dead letters of queue {name}"
    if kind == "exchange":
        return f"delayed exchange {name}"
    if kind == "group":
        group, _, stream = name.rpartition("@")
        return f"reader group {group} of stream {stream}"
    if kind == "user":
        return f"user {name.removesuffix('@/')}"
    if actor == "node":
        return "the whole node"
    if ":" not in actor:
        return actor
    return f"{kind} {name}"


def blamed(root: str, reason: str) -> str:
    """A cause as a sentence names it: `cpu at queue /orders`, `the memory alarm`."""
    if reason == root or kind_of(root) in ("consumers", "rate", "exchange", "group"):
        return called(root)
    return f"{reason} at {called(root)}"


def was_held(actor: str, blocked_ns: int = 0, parked_ns: int = 0) -> str:
    """What happened to an actor that was blocked: a consumer has no gate, it is given nothing.
    blocked_ns: how long; parked_ns: of that, when publishes of it were parked."""
    if 2 * parked_ns > blocked_ns:
        return "had publishes parked"
    return "could be given nothing" if kind_of(actor) == "consumer" else "was blocked"


def waits_for(reason: str) -> str:
    """The verb between a held actor and its holder. Reasons may carry a detail after a colon."""
    known = _WAITS_FOR.get(reason.partition(":")[0])
    return known if known is not None else "waits for"
