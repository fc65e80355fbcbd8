"""Settings that `flow set` has changed for good, kept for brokers that begin later.

A cluster keeps them in etcd, in one key, which is changed by compare-and-swap, and as long as a
node of it is there: one that starts and finds no other drops them, as a broker's are gone with it.
Another one may be there that etcd was out of reach of for so long that it seems to be gone; it puts
back what it misses. Nothing else takes a setting away.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import KEPT_SETTINGS, KEPT_SETTINGS_BYTES

if TYPE_CHECKING:
    # Several workers without a cluster keep settings, too, and need no client of etcd.
    from penstock.server.cluster.etcd import EtcdStore, Stored

KEPT: Final = "settings"
"""The key's name below the cluster's prefix."""
NOTHING: Final = b"{}"
TRIES: Final = 20
"""Of a swap: so many nodes may be first."""


def check_room(kept: Mapping[str, str], changes: Mapping[str, str]) -> None:
    """Whether these changes, which are made already, can be kept with what is.
    Raises: OperatorError."""
    if not changes:
        return
    whole = {**kept, **changes}
    size = len(msgspec.json.encode(whole))
    full = ""
    if len(whole) > KEPT_SETTINGS.default:
        full = f"{len(kept)} settings are kept already, and {KEPT_SETTINGS.default} may be"
    elif size > KEPT_SETTINGS_BYTES.default:
        full = f"settings are kept in {KEPT_SETTINGS_BYTES.default} bytes, and it would be {size}"
    if full:
        raise OperatorError(
            f"it is done, but {full}: brokers that begin to serve later will have it from the "
            "configuration only; write it there"
        )


def read_kept(found: "Stored | None") -> dict[str, str]:
    """Raises: OperatorError."""
    if found is None:
        return {}
    try:
        return msgspec.json.decode(found.value, type=dict[str, str])
    except msgspec.DecodeError as fault:
        raise OperatorError(
            f"what etcd has of changed settings cannot be read ({fault}): another version, or "
            "something else has written it; nothing is changed"
        ) from fault


def save(store: "EtcdStore", changes: Mapping[str, str], lost: Mapping[str, str]) -> dict[str, str]:
    """Add `changes` to what etcd has, and of `lost` what it has not; all that it has then. In a
    thread. Raises: EtcdFault; OperatorError."""
    for _ in range(TRIES):
        found = store.read(KEPT).get(KEPT)
        there = read_kept(found)
        wanted = {**lost, **there, **changes}
        revision = 0 if found is None else found.revision
        if wanted == there or store.swap(KEPT, revision, msgspec.json.encode(wanted)):
            return wanted
    raise OperatorError("other nodes change settings at the same time")


class KeptSettings:
    """stored: as etcd had them last; unsaved: changes that it has not taken yet; lost: that it had,
    and has no more."""

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}
        self.unsaved: dict[str, str] = {}
        self.lost: dict[str, str] = {}

    def all(self) -> dict[str, str]:
        """By key."""
        return {**self.lost, **self.stored, **self.unsaved}

    def is_saved(self) -> bool:
        """Whether etcd has them all."""
        return not self.unsaved and not self.lost

    def change(self, changes: Mapping[str, str]) -> None:
        """They are in force. Raises: OperatorError for too many."""
        check_room(self.all(), changes)
        self.unsaved.update(changes)

    def seen(self, found: "Stored | None") -> None:
        """What etcd has now. Raises: OperatorError."""
        there = read_kept(found)
        had = {**self.lost, **self.stored}
        self.lost = {key: text for key, text in had.items() if key not in there}
        self.stored = there

    def saved(self, changes: Mapping[str, str], after: dict[str, str]) -> None:
        """etcd has taken `changes`, and has `after` now."""
        self.stored = after
        self.lost = {key: text for key, text in self.lost.items() if key not in after}
        self.unsaved = {key: text for key, text in self.unsaved.items() if changes.get(key) != text}
