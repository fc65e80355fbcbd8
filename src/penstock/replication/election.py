"""When a voter suspects the leader, when it campaigns, and whom it counts."""

from penstock.base.chance import Chance
from penstock.replication.config import (
    ELECTING,
    LED,
    RESIGNED,
    ClusterConfig,
    Promise,
    chosen_leader,
    is_majority,
)
from penstock.replication.timing import Timing


class Election:
    """The election of one epoch, as one voter sees it.

    promises: of the epoch, by name. suspicions: names of those that do not hear its leader.
    suspected: the epoch for which this voter has told that it does not.
    """

    def __init__(self, name: str, timing: Timing, chance: Chance) -> None:
        self.name = name
        self.timing = timing
        self.chance = chance
        self.promises: dict[str, Promise] = {}
        self.suspicions: set[str] = set()
        self.suspected = 0
        self._since_ms = 0
        self._due_ms = 0

    def begin(self) -> None:
        """Another epoch."""
        self.promises.clear()
        self.suspicions.clear()
        self.suspected = 0

    def phase_seen(self, config: ClusterConfig, now_ms: int) -> None:
        """The configuration has come into another phase: from when on to campaign in it."""
        election_ms = self.timing.election_ms
        self._since_ms = now_ms
        if config.phase == ELECTING:
            self._due_ms = now_ms + election_ms + self._draw(election_ms)
        elif config.phase == RESIGNED and config.leader == self.name:
            # Who has resigned lets the others go first.
            self._due_ms = now_ms + election_ms + self._draw(election_ms)
        else:
            self._due_ms = now_ms + self._draw(self.timing.heartbeat_ms // 4)

    def should_campaign(self, config: ClusterConfig, is_named: bool, now_ms: int) -> bool:
        """is_named: the configuration names this member, which does not lead nor is going to."""
        if now_ms < self._due_ms:
            return False
        if config.phase == LED:
            is_suspect = self.name in self.suspicions and is_majority(config, self.suspicions)
            return is_named or is_suspect
        return True

    def put_off(self, now_ms: int) -> None:
        """It campaigned; should that come to nothing, it waits before it does again."""
        self._due_ms = now_ms + self.timing.retry_ms + self._draw(self.timing.election_ms)

    def chosen(self, config: ClusterConfig, now_ms: int) -> str:
        """Whom this candidate makes the leader, "" for nobody yet."""
        have_all = all(name in self.promises for name in config.voters)
        is_patient = not have_all and now_ms - self._since_ms < self.timing.promise_wait_ms
        if is_patient and config.prefer in config.voters and config.prefer not in self.promises:
            # An operator has asked for it, and its disk may be slower than others.
            return ""
        return chosen_leader(config, self.promises.values(), is_patient=is_patient)

    def _draw(self, highest: int) -> int:
        return int.from_bytes(self.chance.token(4), "big") % max(1, highest)
