"""`python -m penstock.spark.main INPUT OUTPUT`: analyse a directory of events and traces."""

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Final

from penstock.base.errors import OperatorError
from penstock.spark.job.pipeline import run
from penstock.spark.report.promises import MARKS

EXIT_OK: Final = 0
EXIT_BROKEN_PROMISE: Final = 1
EXIT_CANNOT_RUN: Final = 2
EXIT_INTERRUPTED: Final = 130


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status: 0 all promises kept, 1 one was broken, 2 it could not run."""
    options = _parser().parse_args(arguments)
    # Spark's JVM ends with this process, but only if the session is closed on the way out.
    signal.signal(signal.SIGTERM, _stop)
    try:
        summary = run(options.input, options.output, with_spark=not options.no_spark)
    except OperatorError as fault:
        print(f"✘ {fault}", file=sys.stderr)
        return EXIT_CANNOT_RUN
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    print(f"engine   {summary.source.engine_note}")
    for promise in summary.promises:
        print(f" {MARKS[promise.state]} {promise.name}: {promise.detail}")
    for sentence in summary.sentences:
        print(f" {sentence}")
    print(f"report   {options.output / 'index.html'}")
    return EXIT_OK if summary.is_kept else EXIT_BROKEN_PROMISE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m penstock.spark.main",
        description="Tables and one HTML report from flow event files and message traces.",
    )
    parser.add_argument("input", type=Path, help="directory with events-*.jsonl, trace-*.jsonl")
    parser.add_argument("output", type=Path, help="directory for index.html and tables/")
    parser.add_argument("--no-spark", action="store_true", help="use plain Python")
    return parser


def _stop(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
