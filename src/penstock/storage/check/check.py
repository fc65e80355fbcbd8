"""Whether a store is whole: every record of every segment read, nothing changed.

What a crash may leave (torn ends, acknowledgements that do not fit) is noted; what had been safe
and is not whole any more is damage. After a clean stop nothing is torn, so more is damage then.
"""

from typing import Final

from penstock.storage.check.check_segment import SegmentCheck, StoreFacts
from penstock.storage.check.findings import Findings
from penstock.storage.layout.files import Directory
from penstock.storage.layout.format import ORPHANED, acks_name, is_spare, log_name, number_of
from penstock.storage.layout.segment import Segment
from penstock.storage.log.roster import ROSTERS

ORPHAN_TEXT: Final = "the catalogue had never heard of its queues; a start has set it aside"


def check(directory: Directory, facts: StoreFacts) -> Findings:
    """Everything that is wrong in `directory`. Raises: OSError, OperatorError for an unknown
    format."""
    findings = Findings()
    names = directory.names()
    numbers = sorted({number_of(name) for name in names if number_of(name) >= 0})
    for name in names:
        if name.endswith(".log.damaged"):
            findings.damage(name, "its beginning could not be read; a start has set it aside")
        elif name.endswith(ORPHANED):
            findings.note(name, ORPHAN_TEXT)
        elif is_spare(name):
            findings.note(name, "a file to be used again: nothing in it counts, a start removes it")
        elif number_of(name) < 0 and name not in ROSTERS:
            findings.note(name, "no file of the store; the broker leaves it alone")
    strangers: dict[int, int] = {}
    others: list[Segment] = []
    for number in numbers:
        if log_name(number) not in names:
            text = "acknowledgements without a segment; a start removes it"
            findings.note(acks_name(number), text)
            continue
        one = SegmentCheck(number, directory, number == numbers[-1], facts, findings)
        others.append(one.run(acks_name(number) in names, others))
        for queue_id, count in one.strangers.items():
            strangers[queue_id] = strangers.get(queue_id, 0) + count
    _name_strangers(strangers, facts, findings)
    return findings


def _name_strangers(strangers: dict[int, int], facts: StoreFacts, findings: Findings) -> None:
    """Records of queues that the catalogue does not have."""
    if not facts.has_catalogue:
        if strangers:
            findings.note(
                "metadata.sqlite",
                f"{sum(strangers.values())} records are of {len(strangers)} queues; which those "
                "are, and whether they still count, cannot be told without the catalogue",
            )
        return
    for queue_id, count in sorted(strangers.items()):
        if queue_id > facts.queue_id_max:
            findings.damage(
                "metadata.sqlite",
                f"{count} records are of queue number {queue_id}, and the highest that was ever "
                f"given is {facts.queue_id_max}: the catalogue is older than the messages",
            )
    deleted = [count for queue_id, count in strangers.items() if queue_id <= facts.queue_id_max]
    if deleted:
        findings.note(
            "metadata.sqlite",
            f"{sum(deleted)} records are of {len(deleted)} deleted queues; they go with their "
            "segments",
        )
