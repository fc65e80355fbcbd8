"""How much of the time publishers were held is charged to whoever was made slow on purpose.

    python -m tests.spark.ground_truth --seeds 200

records so many runs of the simulator with one culprit each, all as boots of one directory, brings
them into tables with Spark as `penstock pipeline run` does, and says of how many the root is right,
and how far blame is from the time that was held.
"""

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.compute as pc

from penstock.spark.blame.blame import HELD_KINDS, actor_kind
from penstock.spark.schema.rows import BlameRow
from tests.spark.injected_causes import KINDS, Truth, drawn, record

SHARE_MIN = 0.93
HELD_MIN_NS = 100_000_000
RIGHT_MIN = 0.97
REST_MAX = 0.001


def named_share(rows: Iterable[BlameRow], truth: Truth) -> float:
    """0..1; fails when nobody was held, because then nothing was to be found."""
    whole_ns = named_ns = 0
    for row in rows:
        if actor_kind(row.victim) in HELD_KINDS:
            whole_ns += row.blamed_ns
            if row.cause == truth.cause and row.root.startswith(truth.roots):
                named_ns += row.blamed_ns
    assert whole_ns >= HELD_MIN_NS, "the culprit held nobody"
    return named_ns / whole_ns


def main(arguments: Sequence[str]) -> int:
    """Exit status 1 where less is right than is wanted."""
    parser = argparse.ArgumentParser(description="Is the blame of the flow pipeline right?")
    parser.add_argument("--seeds", type=int, default=200)
    options = parser.parse_args(arguments)
    # Spark is needed by this program alone; the tests of this directory import the rest.
    from penstock.spark.java import find_java
    from penstock.spark.job.job import SparkJob
    from penstock.spark.job.pipeline import BUCKET_NS
    from penstock.spark.session.session import open_session

    with tempfile.TemporaryDirectory(prefix="penstock-truth-") as scratch:
        source, tables = Path(scratch) / "in", Path(scratch) / "tables"
        truths = {}
        for seed in range(options.seeds):
            culprit = drawn(seed)
            truths[f"s{seed}"] = culprit.kind, record(culprit, str(source))
        with open_session(find_java(), "") as spark:
            job = SparkJob(spark, source, tables, BUCKET_NS)
            job.update()
            counts = job.counts()
        held, blame = (job.store.read(f"gold/{name}") for name in ("held_time", "root_cause"))
    assert held is not None and blame is not None, "there are events, so there are tables"
    assert counts.events_missing == counts.unreadable_lines == 0, counts
    rest: Counter[tuple[str, str, int]] = Counter()
    for row in held.to_pylist():
        rest[row["boot_id"], row["actor"], row["bucket_ns"]] += row["held_ns"]
    held_ns = sum(rest.values())
    for row in blame.to_pylist():
        rest[row["boot_id"], row["victim"], row["bucket_ns"]] -= row["blamed_ns"]
    rest_ns = sum(map(abs, rest.values()))
    right: Counter[str] = Counter()
    shares = []
    for boot, (kind, truth) in truths.items():
        some = blame.filter(pc.equal(blame["boot_id"], boot)).to_pylist()
        rows = [BlameRow(**{name: row[name] for name in BlameRow._fields}) for row in some]
        shares.append(named_share(rows, truth))
        right[kind] += shares[-1] > 1 / 2
        if shares[-1] < SHARE_MIN:
            print(f"{boot}, {kind}: {shares[-1]:.1%} of the blame")
    drawn_kinds = Counter(kind for kind, _ in truths.values())
    for kind in KINDS:
        print(f"{kind}: {right[kind]} of {drawn_kinds[kind]} right")
    found = sum(right.values()) / len(truths)
    print(
        f"{counts.event_count:,} events of {len(truths)} runs: root right in {found:.1%}, the "
        f"culprit has {min(shares):.1%} of the blame or more, {sum(shares) / len(shares):.2%} in "
        f"the mean; held {held_ns / 1e9:.1f} s, of which {rest_ns} ns are not blamed"
    )
    return 0 if found >= RIGHT_MIN and rest_ns <= REST_MAX * held_ns else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
