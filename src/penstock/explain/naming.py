"""Shows connections by the names their clients gave them, in every id that has one in it.

The broker's own ids have the peer's address, which is unique and says nothing. A client that gave a
name (`connection_name`) is `conn:NAME`, its channels `chan:NAME/1`, its consumers
`consumer:TAG@conn:NAME`, its account `conn:NAME`. Where several gave the same name, or the name is
another actor's, the address goes with it: `conn:NAME@ADDRESS`.

`find` gives the actor that a kind and a name mean, `nobody_called` the names that come close.
"""

import difflib
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Final

from penstock.base.steps import whole
from penstock.explain.consumer_causes import LEASE
from penstock.explain.kinds import KINDS
from penstock.explain.root_causes import DEBT
from penstock.telemetry.actor_window import OWED, SENT, STORED, ActorWindow, BlockWindow
from penstock.telemetry.words import kind_of, name_of

CLOSE_NAMES_MAX: Final = 5
STEP_NAMES: Final = 128
_NAMES_COMPARED_MAX: Final = 2000
NAME_CHARACTERS_MAX: Final = 64
"""A longer name is cut: it comes from a stranger and stands in every line."""

_KEYS_WITH_IDS: Final = (DEBT, SENT, STORED, OWED, "credit_now:", "credit_initial:")


def find(kind: str, name: str, windows: Mapping[str, ActorWindow]) -> str | None:
    """The actor of this kind that `name` means, or None. Names as explain takes them."""
    prefix = KINDS.get(kind)
    if prefix is None:
        return None
    direct = [name, f"{prefix}:{name}"]
    if prefix == "queue":
        direct.append(f"queue:/{name}")
    for actor in direct:
        if actor in windows and kind_of(actor) == prefix:
            return actor
    if prefix == "consumer":
        found = with_tag(name, windows)
        if len(found) > 1:
            return None
    elif prefix == "conn":
        wanted = name.removeprefix("conn:")
        found = [a for a, w in windows.items() if w.kind == "conn" and wanted in _other_names(w)]
    else:
        found = []
    # Several bear the name: the question is about the one that is worse off.
    return max(found, key=lambda a: (windows[a].blocked_ns, a)) if found else None


def with_tag(name: str, windows: Mapping[str, ActorWindow]) -> list[str]:
    """The consumers that TAG, TAG@CONNECTION or TAG@ADDRESS means."""
    found = [a for a in windows if a.startswith(f"consumer:{name}@conn:")]
    tag, at, holder = name.rpartition("@")
    if at and not found:
        holder = holder.removeprefix("conn:")
        found = [a for a in windows if a == f"consumer:{tag}@conn:{holder}"]
    if at and not found:
        by_peer = {a for a, w in windows.items() if w.kind == "conn" and holder in _other_names(w)}
        found = [
            a
            for a in windows
            if a.startswith(f"consumer:{tag}@conn:") and a.rpartition("@")[2] in by_peer
        ]
    return sorted(found)


def _other_names(window: ActorWindow) -> tuple[str | None, str | None]:
    return window.labels.get("name"), window.labels.get("peer")


def nobody_called(
    kind: str, name: str, windows: Mapping[str, ActorWindow]
) -> tuple[str, tuple[str, ...]]:
    """A sentence that there is no such actor, and at most CLOSE_NAMES_MAX names that come close."""
    if kind not in KINDS:
        every = [*KINDS, "publish", "not"]
        text = f"{kind!r} cannot be asked for; ask for {', '.join(KINDS)} or publish"
        return text, tuple(difflib.get_close_matches(kind, every))
    prefix = KINDS[kind]
    if kind == "consumer":
        several = with_tag(name, windows)
        if len(several) > 1:
            shown = tuple(name_of(actor).replace("@conn:", "@") for actor in several)
            more = len(shown) - CLOSE_NAMES_MAX
            text = f"{len(shown)} consumers are called {name!r}; which one? " + ", ".join(
                shown[:CLOSE_NAMES_MAX]
            )
            return text + (f" and {more} more" if more > 0 else ""), shown[:CLOSE_NAMES_MAX]
    names = sorted(
        name_of(actor).replace("@conn:", "@") for actor in windows if kind_of(actor) == prefix
    )
    wanted = name.removeprefix(f"{prefix}:").lower()
    close = [n for n in names if wanted and wanted in n.lower()][:CLOSE_NAMES_MAX]
    if not close:
        # Comparing letter by letter is slow, so only so many names are compared.
        compared = names[:_NAMES_COMPARED_MAX]
        close = difflib.get_close_matches(wanted, compared, CLOSE_NAMES_MAX, 0.5)
    if close:
        hint = f"did you mean {', '.join(close)}?"
    elif names:
        more = len(names) - CLOSE_NAMES_MAX
        close = names[:CLOSE_NAMES_MAX]
        hint = f"there are {', '.join(close)}" + (f" and {more} more" if more > 0 else "")
    else:
        hint = f"there is no {kind} now"
    return f"no {kind} is called {name!r}; {hint}", tuple(close)


def client_name(properties: Mapping[str, object]) -> str:
    """What a client calls itself in its properties, fit to be shown; "" if it does not."""
    given = properties.get("connection_name")
    return _clean(given) if isinstance(given, str) else ""


def spark_words(properties: Mapping[str, object]) -> str:
    """Which Spark query a client says it works for, and where, fit to be shown; "" for others."""
    said = properties.get("spark")
    if not isinstance(said, dict):
        return ""
    known = {name: _clean(value) for name, value in said.items() if isinstance(value, str)}
    names = ("query", "query_id", "application", "host")
    words = ("query", "id", "application", "host")
    shown = [f"{word} {known[name]}" for name, word in zip(names, words, strict=True)
             if known.get(name)]  # fmt: skip
    return f"Spark {', '.join(shown)}" if shown else ""


def named(windows: Mapping[str, ActorWindow]) -> dict[str, ActorWindow]:
    """The same windows under the names people know."""
    return whole(naming(windows))


def naming(windows: Mapping[str, ActorWindow]) -> Generator[float, None, dict[str, ActorWindow]]:
    """The same in steps of STEP_NAMES."""
    names = Names(windows)
    yield 0.0
    if not names.by_address and not names.leases:
        return dict(windows)
    answer: dict[str, ActorWindow] = {}
    for index, (actor, window) in enumerate(windows.items()):
        shown = names.of(actor)
        answer[shown] = _shown(window, shown, names)
        if index % STEP_NAMES == STEP_NAMES - 1:
            yield 0.0
    return answer


class Names:
    """What each address is called. by_address: without a kind; empty if no client gave a name;
    leases: what a consumer that is a lease is called in place of its group."""

    def __init__(self, windows: Mapping[str, ActorWindow]) -> None:
        given = {
            name_of(actor): _clean(window.labels["name"])
            for actor, window in windows.items()
            if window.kind == "conn" and window.labels.get("name", "").strip()
        }
        bearers: dict[str, int] = {}
        for name in given.values():
            bearers[name] = bearers.get(name, 0) + 1
        self.by_address = {
            address: name
            if bearers[name] == 1 and f"conn:{name}" not in windows
            else f"{name}@{address}"
            for address, name in given.items()
        }
        self.leases: dict[str, str] = {}
        taken: set[str] = set()
        for actor, window in windows.items():
            if LEASE in window.labels:
                label = _clean(window.labels[LEASE])
                # One query may read several queues by groups of one name each.
                if label in taken:
                    label = f"{label} {name_of(actor).partition('@conn:')[0]}"
                taken.add(label)
                self.leases[actor] = label

    def of(self, actor: str) -> str:
        """The id `actor` is shown by."""
        kind, _, rest = actor.partition(":")
        if kind == "rate":
            return f"rate:{self.of(rest)}"
        if kind in ("conn", "socket"):
            name = self.by_address.get(rest)
            return actor if name is None else f"{kind}:{name}"
        if kind == "chan":
            address, _, number = rest.rpartition("/")
            name = self.by_address.get(address)
            return actor if name is None else f"chan:{name}/{number}"
        if kind == "consumer":
            tag, found, holder = rest.rpartition("@conn:")
            name = self.by_address.get(holder, holder) if found else None
            tag = self.leases.get(actor, tag)
            return actor if name is None else f"consumer:{tag}@conn:{name}"
        return actor

    def key(self, key: str) -> str:
        """A key of ActorSnapshot.numbers, which may have an id in it."""
        for prefix in _KEYS_WITH_IDS:
            if key.startswith(prefix):
                return prefix + self.of(key[len(prefix) :])
        return key


def _shown(window: ActorWindow, actor: str, names: Names) -> ActorWindow:
    blocks = tuple(_block(block, names) for block in window.blocks)
    parked = tuple(_block(block, names) for block in window.parked)
    numbers = window.numbers
    if any(":" in key for key in numbers):
        numbers = {names.key(key): value for key, value in numbers.items()}
    rates = window.rates
    if any(":" in key for key in rates):
        rates = {names.key(key): value for key, value in rates.items()}
    if actor == window.actor and blocks == window.blocks and numbers is window.numbers:
        return window
    return replace(window, actor=actor, blocks=blocks, parked=parked, numbers=numbers, rates=rates)


def _block(block: BlockWindow, names: Names) -> BlockWindow:
    peer = names.of(block.peer)
    return block if peer == block.peer else replace(block, peer=peer)


def _clean(name: str) -> str:
    """One line of printable characters."""
    shown = "".join(one if one.isprintable() else "?" for one in name.strip())
    return shown[:NAME_CHARACTERS_MAX]
