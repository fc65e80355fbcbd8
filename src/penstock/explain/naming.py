"""Shows connections by the names their clients gave them, in every id that has one in it.

The broker's own ids have the peer's address, which is unique and says nothing. A client that gave a
name (`connection_name`) is `conn:NAME`, its channels `chan:NAME/1`, its consumers
`consumer:TAG@conn:NAME`, its account `conn:NAME`. Where several gave the same name, or the name is
another actor's, the address goes with it: `conn:NAME@ADDRESS`.

`find` gives the actor that a kind and a name mean, `nobody_called` the names that come close.
"""

import difflib
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from penstock.base.shown_names import shown_name
from penstock.base.steps import whole
from penstock.explain.kinds import KINDS
from penstock.explain.window_index import Least, paced
from penstock.telemetry.actor_window import (
    DEBT,
    LEASE,
    OWED,
    SENT,
    STORED,
    ActorWindow,
    BlockWindow,
)
from penstock.telemetry.words import kind_of, name_of

CLOSE_NAMES_MAX: Final = 5
STEP_NAMES: Final = 32
STEP_COMPARED: Final = 16
"""Names compared letter by letter in one step."""
_NAMES_COMPARED_MAX: Final = 2000
NAME_CHARACTERS_MAX: Final = 64
"""A longer name is cut: it comes from a stranger and stands in every line."""

Close = tuple[str, tuple[str, ...]]
"""A sentence that nobody is meant, and names that come close."""
_MORE: Final = re.compile(r" and (\d+) more")
_LIKE: Final = "did you mean "
_THERE: Final = "there are "
_SEVERAL: Final = "; which one? "
_KEYS_WITH_IDS: Final = (DEBT, SENT, STORED, OWED, "credit_now:", "credit_initial:")


def find(kind: str, name: str, windows: Mapping[str, ActorWindow]) -> str | None:
    """The actor of this kind that `name` means, or None. Names as explain takes them."""
    return whole(finding(kind, name, windows))


def finding(
    kind: str, name: str, windows: Mapping[str, ActorWindow]
) -> Generator[float, None, str | None]:
    """The same in steps."""
    prefix = KINDS.get(kind)
    if prefix is None:
        return None
    direct = [name, f"{prefix}:{name}"]
    if prefix == "queue":
        direct.append("queue:" + shown_name("/", name))
    for actor in direct:
        if actor in windows and kind_of(actor) == prefix:
            return actor
    if prefix == "consumer":
        found = yield from with_tag(name, windows)
        if len(found) > 1:
            return None
    elif prefix == "conn":
        wanted = name.removeprefix("conn:")
        found = yield from _also_called(wanted, windows)
    else:
        found = []
    # Several bear the name: the question is about the one that is worse off.
    worst: tuple[int, str] | None = None
    for one in paced(found):
        if one is None:
            yield 0.0
        else:
            this = (windows[one].blocked_ns, one)
            worst = this if worst is None else max(worst, this)
    return None if worst is None else worst[1]


def with_tag(name: str, windows: Mapping[str, ActorWindow]) -> Generator[float, None, list[str]]:
    """The consumers that TAG, TAG@CONNECTION or TAG@ADDRESS means, in steps; in no order."""
    found = yield from _beginning(f"consumer:{name}@conn:", windows)
    tag, at, holder = name.rpartition("@")
    holder = holder.removeprefix("conn:")
    if not at or found:
        return found
    if f"consumer:{tag}@conn:{holder}" in windows:
        return [f"consumer:{tag}@conn:{holder}"]
    by_peer = set((yield from _also_called(holder, windows)))
    tagged = yield from _beginning(f"consumer:{tag}@conn:", windows)
    return [actor for actor in tagged if actor.rpartition("@")[2] in by_peer]


def _beginning(start: str, windows: Mapping[str, ActorWindow]) -> Generator[float, None, list[str]]:
    """The actors whose ids begin so."""
    found: list[str] = []
    for actor in paced(windows):
        if actor is None:
            yield 0.0
        elif actor.startswith(start):
            found.append(actor)
    return found


def _also_called(
    name: str, windows: Mapping[str, ActorWindow]
) -> Generator[float, None, list[str]]:
    """The connections whose client or peer has this name."""
    found: list[str] = []
    for one in paced(windows.items()):
        if one is None:
            yield 0.0
        elif one[1].kind == "conn" and name in _other_names(one[1]):
            found.append(one[0])
    return found


def _other_names(window: ActorWindow) -> tuple[str | None, str | None]:
    return window.labels.get("name"), window.labels.get("peer")


def nobody_called(
    kind: str, name: str, windows: Mapping[str, ActorWindow]
) -> tuple[str, tuple[str, ...]]:
    """A sentence that there is no such actor, and at most CLOSE_NAMES_MAX names that come close."""
    return whole(naming_close(kind, name, windows))


def several_of_all(name: str, found: Sequence[Close], known: Sequence[str]) -> Close | None:
    """Whether `name` is of more than one consumer of several brokers: a sentence and names. found:
    of those who know nobody, or several; known: the consumers that others know by it."""
    several = [one for one in found if _SEVERAL in one[0]]
    names = {consumer_name(one) for one in known}.union(*(one[1] for one in several))
    if len(names) < 2:
        return None
    count = len(known) + sum(len(close[1]) + _more_in(close) for close in several)
    return _which_one(name, sorted(names)[:CLOSE_NAMES_MAX], count)


def nobody_of_all(kind: str, name: str, found: Sequence[Close]) -> Close:
    """What several have said by nobody_called, each of its own actors, as if one had all of them.
    found: at least one."""
    if kind not in KINDS:
        return found[0]
    for mark in (_LIKE, _THERE):
        marked = [one for one in found if f"; {mark}{', '.join(one[1])}" in one[0] and one[1]]
        told = sorted(one for _, names in marked for one in names)
        if not told:
            continue
        if mark == _THERE:
            count = len(told) + sum(map(_more_in, marked))
            return _there_are(kind, name, told[:CLOSE_NAMES_MAX], count)
        wanted = name.removeprefix(f"{KINDS[kind]}:").lower()
        # Names that have it in them come before those that are only alike.
        close = [one for one in told if wanted and wanted in one.lower()][:CLOSE_NAMES_MAX]
        return _did_you_mean(
            kind, name, close or difflib.get_close_matches(wanted, told, CLOSE_NAMES_MAX, 0.5)
        )
    return found[0]


def consumer_name(actor: str) -> str:
    """`TAG@CONNECTION` of its id; of others what is behind their kind."""
    return name_of(actor).replace("@conn:", "@")


def _more_in(close: Close) -> int:
    """How many more there are than the sentence has names."""
    found = _MORE.fullmatch(close[0].rpartition(", ".join(close[1]))[2])
    return int(found[1]) if found else 0


def _which_one(name: str, shown: Sequence[str], count: int) -> Close:
    more = count - len(shown)
    text = f"{count} consumers are called {name!r}{_SEVERAL}{', '.join(shown)}"
    return text + (f" and {more} more" if more > 0 else ""), tuple(shown)


def _did_you_mean(kind: str, name: str, close: Sequence[str]) -> Close:
    return f"no {kind} is called {name!r}; {_LIKE}{', '.join(close)}?", tuple(close)


def _there_are(kind: str, name: str, shown: Sequence[str], count: int) -> Close:
    more = count - len(shown)
    text = f"no {kind} is called {name!r}; {_THERE}{', '.join(shown)}"
    return text + (f" and {more} more" if more > 0 else ""), tuple(shown)


def naming_close(
    kind: str, name: str, windows: Mapping[str, ActorWindow]
) -> Generator[float, None, tuple[str, tuple[str, ...]]]:
    """The same in steps."""
    if kind not in KINDS:
        every = [*KINDS, "publish", "not"]
        text = f"{kind!r} cannot be asked for; ask for {', '.join(KINDS)} or publish"
        return text, tuple(difflib.get_close_matches(kind, every))
    prefix = KINDS[kind]
    if kind == "consumer":
        several = yield from with_tag(name, windows)
        if len(several) > 1:
            first: Least[str] = Least(CLOSE_NAMES_MAX)
            for actor in paced(several):
                if actor is None:
                    yield 0.0
                else:
                    first.offer((actor,), consumer_name(actor))
            return _which_one(name, first.rows(), first.count)
    names: Least[str] = Least(_NAMES_COMPARED_MAX)
    holding: Least[str] = Least(CLOSE_NAMES_MAX)
    wanted = name.removeprefix(f"{prefix}:").lower()
    for actor in paced(windows):
        if actor is None:
            yield 0.0
        elif kind_of(actor) == prefix:
            one = consumer_name(actor)
            names.offer((one,), one)
            if wanted and wanted in one.lower():
                holding.offer((one,), one)
    close = holding.rows()
    if not close:
        # Comparing letter by letter is slow, so only so many names are compared, a few at a time.
        compared = names.rows()
        for at in range(0, len(compared), STEP_COMPARED):
            some = close + compared[at : at + STEP_COMPARED]
            close = difflib.get_close_matches(wanted, some, CLOSE_NAMES_MAX, 0.5)
            yield 0.0
    if close:
        return _did_you_mean(kind, name, close)
    if names.count > 0:
        return _there_are(kind, name, names.rows()[:CLOSE_NAMES_MAX], names.count)
    return f"no {kind} is called {name!r}; there is no {kind} now", ()


def client_name(properties: Mapping[str, object]) -> str:
    """What a client calls itself in its properties, fit to be shown; "" if it does not."""
    given = properties.get("connection_name")
    return clean_name(given) if isinstance(given, str) else ""


def spark_words(properties: Mapping[str, object]) -> str:
    """Which Spark query a client says it works for, and where, fit to be shown; "" for others."""
    said = properties.get("spark")
    if not isinstance(said, dict):
        return ""
    known = {name: clean_name(value) for name, value in said.items() if isinstance(value, str)}
    names = ("query", "query_id", "application", "host")
    words = ("query", "id", "application", "host")
    shown = [f"{word} {known[name]}" for name, word in zip(names, words, strict=True)
             if known.get(name)]  # fmt: skip
    return f"Spark {', '.join(shown)}" if shown else ""


def named(windows: Mapping[str, ActorWindow]) -> dict[str, ActorWindow]:
    """The same windows under the names people know."""
    return whole(naming(windows))


def naming(windows: Mapping[str, ActorWindow]) -> Generator[float, None, dict[str, ActorWindow]]:
    """The same in steps of STEP_NAMES; `windows` itself where no actor has another name."""
    names = yield from names_in_steps(windows)
    if not names.by_address and not names.leases:
        return windows if isinstance(windows, dict) else dict(windows)
    answer: dict[str, ActorWindow] = {}
    done = 0
    for actor, window in windows.items():
        shown = names.of(actor)
        answer[shown] = _shown(window, shown, names)
        # All consumers of a queue may have as many blocks as there are of them.
        done += 1 + len(window.blocks)
        if done >= STEP_NAMES:
            done = 0
            yield 0.0
    return answer


def names_in_steps(windows: Mapping[str, ActorWindow]) -> Generator[float, None, "Names"]:
    """The names in `windows`, in steps."""
    names = Names({})
    yield from names.reading(windows)
    return names


class Names:
    """What each address is called. by_address: without a kind; empty if no client gave a name;
    leases: what a consumer that is a lease is called in place of its group."""

    def __init__(self, windows: Mapping[str, ActorWindow]) -> None:
        self.by_address: dict[str, str] = {}
        self.leases: dict[str, str] = {}
        whole(self.reading(windows))

    def reading(self, windows: Mapping[str, ActorWindow]) -> Generator[float, None, None]:
        """Take the names in `windows`, in steps of STEP_NAMES."""
        given: dict[str, str] = {}
        bearers: dict[str, int] = {}
        taken: set[str] = set()
        for index, (actor, window) in enumerate(windows.items()):
            if index % STEP_NAMES == STEP_NAMES - 1:
                yield 0.0
            if window.kind == "conn" and window.labels.get("name", "").strip():
                name = clean_name(window.labels["name"])
                given[name_of(actor)] = name
                bearers[name] = bearers.get(name, 0) + 1
            if LEASE in window.labels:
                label = clean_name(window.labels[LEASE])
                # One query may read several queues by groups of one name each.
                if label in taken:
                    label = f"{label} {name_of(actor).partition('@conn:')[0]}"
                taken.add(label)
                self.leases[actor] = label
        for index, (address, name) in enumerate(given.items()):
            is_alone = bearers[name] == 1 and f"conn:{name}" not in windows
            # A client may call itself what another one is shown as.
            is_alone = is_alone and name.rpartition("@")[2] not in given
            self.by_address[address] = name if is_alone else f"{name}@{address}"
            if index % STEP_NAMES == STEP_NAMES - 1:
                yield 0.0

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
        if ":" not in key:
            return key
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
    if peer == block.peer:
        return block
    # What dataclasses.replace does, in a fifth of the time.
    return BlockWindow(
        peer,
        block.reason,
        block.ns,
        block.closed_ns,
        block.stops,
        block.longest_ns,
        block.since_ns,
    )


def clean_name(name: str) -> str:
    """One line of printable characters."""
    shown = "".join(one if one.isprintable() else "?" for one in name.strip())
    return shown[:NAME_CHARACTERS_MAX]
