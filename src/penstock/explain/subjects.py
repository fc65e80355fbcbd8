"""Finds the actor that somebody means by a kind and a name, or the names that come close."""

import difflib
from collections.abc import Mapping
from typing import Final

from penstock.telemetry.actor_window import ActorWindow
from penstock.telemetry.words import kind_of, name_of

KINDS: Final[Mapping[str, str]] = {
    "connection": "conn",
    "channel": "chan",
    "queue": "queue",
    "consumer": "consumer",
    "store": "store",
}
"""What can be asked for by name, and the prefix of its actors' ids. `publish` and `not` besides."""

CLOSE_NAMES_MAX: Final = 5
_NAMES_COMPARED_MAX: Final = 2000


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
    # Several bear the name: the one that is worse off is the one somebody asks about.
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
