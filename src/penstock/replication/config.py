"""What the coordinator keeps of a cluster, and what follows: majorities, commits, leaders."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct, field

from penstock.replication.positions import Position

LED: Final = "led"
ELECTING: Final = "electing"
RESIGNED: Final = "resigned"

MAJORITY: Final = "majority"
ALL: Final = "all"


class ClusterConfig(Struct, frozen=True):
    """One key, changed by compare-and-swap only.

    epoch: 1.. , raised by whoever campaigns.
    phase: led, electing, or resigned.
    leader: who leads; while electing, who campaigns; when resigned, who led.
    voters: identity of the directory by name.
    mode: what a commit waits for, a majority of voters or all that are in sync.
    in_sync: the voters that hold everything committed, and that mirrored queues wait for; nobody
    in the mode majority without such queues.
    forgotten: names by identity of members that may not come back.
    prefer: who should lead next where several would do.
    led_by: who led last, or leads.
    """

    cluster_id: str
    epoch: int
    phase: str
    leader: str
    voters: dict[str, str]
    mode: str = MAJORITY
    in_sync: tuple[str, ...] = ()
    forgotten: dict[str, str] = field(default_factory=dict)
    prefer: str = ""
    led_by: str = ""


class Promise(Struct, frozen=True):
    """A voter takes nothing of epochs before `epoch` any more.

    position: the end of its log. is_whole: no mixture of two directories.
    is_exact: nothing lies in the directory behind its position.
    """

    name: str
    identity: str
    epoch: int
    position: Position
    is_whole: bool
    is_exact: bool


def majority(voters: int) -> int:
    """How many of `voters` are one."""
    return voters // 2 + 1


def is_majority(config: ClusterConfig, names: Iterable[str]) -> bool:
    """Whether those of `names` that vote are a majority."""
    return sum(1 for name in names if name in config.voters) >= majority(len(config.voters))


def agreed_seq(config: ClusterConfig, persisted: Mapping[str, int]) -> int:
    """The highest entry that enough voters have on their disks. persisted: by name; who is not
    in it has nothing."""
    if config.mode == ALL:
        if len(config.in_sync) < majority(len(config.voters)):
            return 0
        return min(persisted.get(name, 0) for name in config.in_sync)
    found = sorted((persisted.get(name, 0) for name in config.voters), reverse=True)
    return found[majority(len(config.voters)) - 1]


def chosen_leader(config: ClusterConfig, promises: Iterable[Promise], *, is_patient: bool) -> str:
    """Who leads the epoch `config.epoch`, "" when the promises there are do not decide it.

    A majority of voters holds everything committed. So does the last leader: it began with all of
    before and has committed nothing that it had not on its own disk; and who has promised commits
    nothing more. Without this rule two followers that are being copied from a leader which restarts
    would be without one for ever.

    Exact replicas lead before others, since nobody can follow another one without a resync; of
    two sets that both hold everything committed, theirs is preferred. is_patient: do not choose
    one that is not exact yet, as further promises may come.
    """
    counted = [
        one
        for one in promises
        if one.epoch == config.epoch
        and one.is_whole
        and config.voters.get(one.name) == one.identity
        and (config.mode != ALL or one.name in config.in_sync)
    ]
    exact = [one for one in counted if one.is_exact]
    for group in (exact,) if is_patient else (exact, counted):
        if _is_enough(config, [one.name for one in group]):
            return max(group, key=lambda one: _rank(config, one)).name
    return ""


def _is_enough(config: ClusterConfig, names: list[str]) -> bool:
    """Whether one of these holds everything that can have been committed.

    In the mode all each does, and the others can commit nothing without it.
    """
    return (
        config.led_by in names or is_majority(config, names) or (config.mode == ALL and names != [])
    )


def _rank(config: ClusterConfig, promise: Promise) -> tuple[Position, bool, bool, bool, str]:
    # Who led last has lost leadership for a reason, or was asked to give it up.
    is_other = promise.name != config.led_by
    is_preferred = promise.name == config.prefer
    return promise.position, promise.is_exact, is_preferred, is_other, promise.name
