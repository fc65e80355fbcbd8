"""The outcome of an analysis: what was promised, what happened, in numbers and in sentences."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from penstock.spark.blame.blame import QUEUES, UNEXPLAINED, blamed, held_kinds, of_whom
from penstock.spark.report.names import one_of_each, shown, shown_chain
from penstock.spark.report.promises import Promise, check, moved
from penstock.spark.report.recommend import Recommendation, recommend
from penstock.spark.schema.formats import RunDescription
from penstock.spark.schema.rows import INTEGRITY_COUNTS, Tables, without_lone_node

PHASE_SHOWN_MIN_NS: Final = 1_000_000_000


_STOPPED: Final = "Queues took nothing, and who waited for their confirms waited, because of "


class CauseShare(NamedTuple):
    """One name for why publishers were held. `share`: 0..1 of all time they were held."""

    cause: str
    blamed_ns: int
    share: float


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where the numbers come from and what is known to be missing in them."""

    engine_note: str
    event_count: int
    events_missing: int
    unreadable_lines: int
    trace_count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What clients' traces and the broker's samples say of messages, and what was held.

    `published` to `duplicated`: of messages that clients traced; `queued_in`, `queued_out`: that
    came into queues and that these were done with, as the broker counts them, copies as well.
    `held_ns`: time that `held_who` (connections and channels, or queues) were held, added up over
    all of them, each wait once."""

    source: TableSource
    published: int
    confirmed: int
    refused: int
    delivered: int
    lost: int
    duplicated: int
    held_ns: int
    explained_share: float
    causes: tuple[CauseShare, ...]
    promises: tuple[Promise, ...]
    sentences: tuple[str, ...]
    recommendations: tuple[Recommendation, ...] = ()
    held_who: str = "connections and channels"
    queued_in: int = 0
    queued_out: int = 0

    @property
    def is_kept(self) -> bool:
        """Whether no promise was broken; one that could not be checked is not broken."""
        return all(promise.state != "broken" for promise in self.promises)

    def verdict(self) -> tuple[str, str]:
        """In a few words, and as the state of a promise: kept only where something was checked."""
        count = dict.fromkeys(("kept", "broken", "unknown"), 0)
        for promise in self.promises:
            count[promise.state] += 1
        if count["broken"]:
            return f"{count['broken']} of {len(self.promises)} checks failed", "broken"
        if not count["kept"]:
            return "nothing could be checked", "unknown"
        words = f"{count['kept']} checks passed"
        return words + (f", {count['unknown']} not possible" if count["unknown"] else ""), "kept"

    def write(self, path: Path) -> None:
        """Write as JSON, the inverse of `read`."""
        path.write_bytes(msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n")

    @staticmethod
    def read(path: Path) -> "Summary":
        """Read what `write` wrote. Raises: OSError, msgspec.MsgspecError."""
        return msgspec.json.decode(path.read_bytes(), type=Summary)


def summarise(
    tables: Tables, run: RunDescription, source: TableSource, bucket_ns: int = 1_000_000_000
) -> Summary:
    """Numbers, promises, sentences and advice of one analysis. bucket_ns: of its tables."""
    tables = without_lone_node(tables)
    causes = cause_shares(tables)
    held_ns = sum(cause.blamed_ns for cause in causes)
    unexplained_ns = sum(cause.blamed_ns for cause in causes if cause.cause in UNEXPLAINED)
    explained_share = 1.0 - unexplained_ns / held_ns if held_ns else 1.0
    published, confirmed, refused, _, delivered, lost, duplicated = (
        sum(getattr(row, name) for row in tables.integrity) for name in INTEGRITY_COUNTS
    )
    return Summary(
        source,
        published,
        confirmed,
        refused,
        delivered,
        lost,
        duplicated,
        held_ns,
        explained_share,
        causes,
        check(tables, run, source.event_count > 0, explained_share, held_ns),
        tuple(_sentences(tables, run, source, causes, held_ns)),
        recommend(tables, bucket_ns),
        of_whom(held_kinds(tables.root_cause)),
        *moved(tables.queue_depth),
    )


def cause_shares(tables: Tables) -> tuple[CauseShare, ...]:
    """Why those who were held were, the greatest share first."""
    sums = blamed(tables.root_cause, "cause")
    whole_ns = sum(sums.values())
    return tuple(
        CauseShare(cause, blamed_ns, blamed_ns / whole_ns) for (cause,), blamed_ns in sums.items()
    )


def _sentences(
    tables: Tables,
    run: RunDescription,
    source: TableSource,
    causes: tuple[CauseShare, ...],
    held_ns: int,
) -> list[str]:
    found: list[str] = []
    if not source.event_count:
        found.append("No flow events were recorded, so nothing can be said about who held whom.")
    elif not held_ns:
        found.append("No publisher was ever held.")
    else:
        one = one_of_each()
        rows = [
            row._replace(victim=one(row.victim, row.node), path=one(row.path, row.node))
            for row in tables.root_cause
        ]
        whose, victim_ns = next(iter(blamed(rows, "victim", "node").items()))
        is_queues = held_kinds(tables.root_cause) == QUEUES
        found.append(
            (_STOPPED if is_queues else "Publishers were held because of ")
            + ", ".join(
                f"{cause.cause} ({cause.share:.0%})" for cause in causes[:4] if cause.share >= 0.005
            )
            + f"; {shown(*whose)} most, {victim_ns / 1e9:.1f} s."
        )
        way, path_ns = next(iter(blamed(rows, "path", "node").items()))
        chain = " → ".join(shown_chain(*way))
        found.append(f"The longest chain of waiting was {chain}, {path_ns / 1e9:.1f} s in all.")
    for phase in run.phases:
        rate = _rate(tables, phase.start_ns, phase.end_ns)
        if rate is not None:
            found.append(
                f"In the phase “{phase.name}” clients published {rate[0]:,.0f} "
                f"and received {rate[1]:,.0f} messages a second."
            )
    found += run.messages
    if source.events_missing:
        found.append(
            f"{source.events_missing} flow events are missing (gaps in their sequence); "
            "times around the gaps are too low or too high."
        )
    if source.unreadable_lines:
        found.append(f"{source.unreadable_lines} lines could not be read and were left out.")
    return found


def _rate(tables: Tables, start_ns: int, end_ns: int) -> tuple[float, float] | None:
    rows = [row for row in tables.throughput if start_ns <= row.bucket_ns < end_ns]
    if not rows or end_ns - start_ns < PHASE_SHOWN_MIN_NS:
        return None
    seconds = (end_ns - start_ns) / 1e9
    published = sum(row.published for row in rows)
    return published / seconds, sum(row.delivered for row in rows) / seconds
