"""Shows connections by the names their clients gave them, in every id that has one in it.

The broker's own ids have the peer's address, which is unique and says nothing. A client that gave a
name (`connection_name`) is `conn:NAME`, its channels `chan:NAME/1`, its consumers
`consumer:TAG@conn:NAME`, its account `conn:NAME`. Where several gave the same name, or the name is
another actor's, the address goes with it: `conn:NAME@ADDRESS`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from penstock.explain.root_causes import DEBT
from penstock.telemetry.actor_window import OWED, SENT, STORED, ActorWindow, BlockWindow
from penstock.telemetry.words import name_of

NAME_CHARACTERS_MAX: Final = 64
"""A longer name is cut: it comes from a stranger and stands in every line."""

_KEYS_WITH_IDS: Final = (DEBT, SENT, STORED, OWED, "credit_now:", "credit_initial:")


def client_name(properties: Mapping[str, object]) -> str:
    """What a client calls itself in its properties, fit to be shown; "" if it does not."""
    given = properties.get("connection_name")
    return _clean(given) if isinstance(given, str) else ""


def named(windows: Mapping[str, ActorWindow]) -> dict[str, ActorWindow]:
    """The same windows under the names people know."""
    names = Names(windows)
    if not names.by_address:
        return dict(windows)
    answer: dict[str, ActorWindow] = {}
    for actor, window in windows.items():
        shown = names.of(actor)
        answer[shown] = _shown(window, shown, names)
    return answer


class Names:
    """What each address is called. by_address: without a kind; empty if nobody gave a name."""

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
            name = self.by_address.get(holder) if found else None
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
    numbers = window.numbers
    if any(":" in key for key in numbers):
        numbers = {names.key(key): value for key, value in numbers.items()}
    rates = window.rates
    if any(":" in key for key in rates):
        rates = {names.key(key): value for key, value in rates.items()}
    if actor == window.actor and blocks == window.blocks and numbers is window.numbers:
        return window
    return replace(window, actor=actor, blocks=blocks, numbers=numbers, rates=rates)


def _block(block: BlockWindow, names: Names) -> BlockWindow:
    peer = names.of(block.peer)
    return block if peer == block.peer else replace(block, peer=peer)


def _clean(name: str) -> str:
    """One line of printable characters."""
    shown = "".join(one if one.isprintable() else "?" for one in name.strip())
    return shown[:NAME_CHARACTERS_MAX]
