"""What a check has found: damage, and things that are odd but cost nothing."""

from dataclasses import dataclass
from typing import Final

from penstock.base.limits import STORE_FINDINGS

FINDINGS_MAX: Final = STORE_FINDINGS.default


@dataclass(frozen=True, slots=True)
class Finding:
    """is_damage: something that was safe is not whole; file, offset: where, -1 for all of it;
    queue_id, position: whose record it is, 0 where that cannot be told; is_lost: a message that
    counts is gone; text: what is wrong."""

    is_damage: bool
    file: str
    offset: int
    text: str
    queue_id: int = 0
    position: int = 0
    is_lost: bool = False


class Findings:
    """kept: the first STORE_FINDINGS; damage_count, note_count, lost_count: of all; record_count,
    byte_count, segment_count: what was read."""

    __slots__ = (
        "byte_count",
        "damage_count",
        "kept",
        "lost_count",
        "note_count",
        "record_count",
        "segment_count",
    )

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.damage_count = 0
        self.note_count = 0
        self.lost_count = 0
        self.record_count = 0
        self.byte_count = 0
        self.segment_count = 0

    def add(self, finding: Finding) -> None:
        """One more."""
        if finding.is_damage:
            self.damage_count += 1
        else:
            self.note_count += 1
        self.lost_count += finding.is_lost
        if len(self.kept) < FINDINGS_MAX:
            self.kept.append(finding)

    def note(self, file: str, text: str, offset: int = -1) -> None:
        """Something odd."""
        self.add(Finding(False, file, offset, text))

    def damage(self, file: str, text: str, offset: int = -1) -> None:
        """Something that is not whole, without a message of its own."""
        self.add(Finding(True, file, offset, text))
