"""Which nodes mirror a queue, as a policy of `ha-mode` says it, in RabbitMQ's words.

ha-mode   ha-params        mirrors, beside the node that leads
all       -                every other node
exactly   N = 1..          N - 1 of the others, which ones is the queue's name's business
nodes     [name, ...]      those of the others; `rabbit@a` and `a` are the same
"""

from collections.abc import Mapping
from typing import Final
from zlib import crc32

from penstock.base.errors import OperatorError
from penstock.base.policy import shown
from penstock.queues.applied import Applied

MODE: Final = "ha-mode"
PARAMS: Final = "ha-params"
ALL: Final = "all"
EXACTLY: Final = "exactly"
NODES: Final = "nodes"
HA_MODES: Final = (ALL, EXACTLY, NODES)
HA_KEYS: Final = (
    PARAMS,
    "ha-sync-mode",
    "ha-sync-batch-size",
    "ha-promote-on-shutdown",
    "ha-promote-on-failure",
)
"""Those that say nothing without `ha-mode`."""


class MirrorRule:
    """mode: of HA_MODES; count: of copies with the leader's, in `exactly`; names: in `nodes`."""

    __slots__ = ("count", "mode", "names")

    def __init__(self, mode: str, count: int, names: tuple[str, ...]) -> None:
        self.mode = mode
        self.count = count
        self.names = names

    def mirrors(self, queue: str, others: list[str], own: str) -> list[str]:
        """Which of `others`, the nodes beside `own` which leads, mirror `queue`."""
        if self.mode == ALL:
            return sorted(others)
        if self.mode == NODES:
            return sorted([name for name in others if name in self.names])
        drawn = sorted([(crc32(f"{queue}@{name}".encode()), name) for name in others])
        return sorted([name for _, name in drawn[: self.count - 1]])


def mirror_rule(applied: Applied | None) -> MirrorRule | None:
    """What the policies of a queue say of its mirrors; None for nothing."""
    if applied is None:
        return None
    mode, params = applied.definition.get(MODE), applied.definition.get(PARAMS)
    if mode == ALL:
        return MirrorRule(ALL, 0, ())
    if mode == EXACTLY and isinstance(params, int):
        return MirrorRule(EXACTLY, params, ())
    if mode == NODES and isinstance(params, list):
        return MirrorRule(NODES, 0, tuple([_bare(str(name)) for name in params]))
    return None


def check_mirrors(name: str, definition: Mapping[str, object]) -> None:
    """Raise OperatorError where keys of policy `name` do not go together."""
    said = [key for key in HA_KEYS if key in definition]
    mode = definition.get(MODE)
    if mode is None:
        if said:
            raise OperatorError(f"policy '{name}': {said[0]} means nothing without {MODE}; add it")
        return
    params = definition.get(PARAMS)
    wanted = ""
    if mode == ALL:
        wanted = "" if params is None else 'ha-mode "all" takes none'
    elif mode == EXACTLY:
        is_count = isinstance(params, int) and not isinstance(params, bool) and params >= 1
        wanted = "" if is_count else 'ha-mode "exactly" takes a number of copies of 1 or more'
    elif not _is_names(params):
        wanted = 'ha-mode "nodes" takes a list of names of nodes'
    if wanted:
        raise OperatorError(
            f"policy '{name}': {shown(params)} is not a valid ha-params value ({PARAMS}): {wanted}"
        )


def _is_names(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return [one for one in value if isinstance(one, str) and one] == value


def _bare(name: str) -> str:
    """`rabbit@a` and `penstock@a` are the node `a`."""
    return name.rpartition("@")[2]
