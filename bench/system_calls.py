"""System calls and wake-ups per message, counted, of Penstock and of the relay of limit.c.

    python bench/system_calls.py                        pp50, pp, b1k1, c1, d16, from this checkout
    python bench/system_calls.py --python PATH          as installed for that interpreter (compiled)
    python bench/system_calls.py --only pp50 --smoke    few messages: does it count at all?

Each row sends a fixed number of messages while `strace -f -c` counts the calls of the broker; what
the same connections cost without a message is taken off. Being traced makes every call slower, so
more messages wait when one returns and more is gathered than otherwise: the counts say which calls
there are and how they relate. Wake-ups are voluntary context switches (/proc/PID/task), counted in
a second run without strace. Needs Linux and strace.
"""

import argparse
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import (
    Broker,
    BrokerFailed,
    Target,
    forget_cache,
    limit_target,
    penstock_target,
)
from bench.machine import describe
from bench.measure import RunFailed, build_generator, forget_generator, limit_beside, run_once
from bench.report import takes_part
from bench.workloads import WORKLOADS, Workload

ROWS: Final = ("pp50", "pp", "b1k1", "c1", "d16")
SMOKE_COUNT: Final = 200
COUNTS: Final = {"pp": 10_000, "c1": 3_000}
COUNT: Final = 60_000
STRACE_MISSING: Final = "this needs strace (apt-get install strace)"
ATTACHED_S_MAX: Final = 10.0
# A line of the summary: share of time, seconds, microseconds a call, calls, errors, name.
LINE: Final = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(\w+)$", re.M)


@dataclass(frozen=True, slots=True)
class Counted:
    """One row of one broker. calls: by name, per message; wake_ups: voluntary context switches of
    all its threads, per message."""

    calls: dict[str, float]
    wake_ups: float

    def text(self) -> str:
        """Most frequent first; what happens less than once in a hundred messages is left out."""
        common = sorted(self.calls.items(), key=lambda one: -one[1])
        shown = "  ".join(f"{name} {count:.2f}" for name, count in common if count >= 0.01)
        return f"calls {sum(self.calls.values()):6.2f}  wake-ups {self.wake_ups:5.2f}   {shown}"


def parse_counts(summary: str) -> dict[str, int]:
    """Calls by name from what `strace -c` writes."""
    counts = {name: int(count) for count, name in LINE.findall(summary)}
    counts.pop("total", None)
    return counts


def switches(pid: int) -> int:
    """How often the threads of a process have waited for something."""
    found = 0
    for task in Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            text = task.read_text(encoding="ascii")
        except OSError:
            continue
        match = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)
        found += int(match[1]) if match else 0
    return found


def await_tracer(pid: int, tracer: "subprocess.Popen[bytes]") -> None:
    """Until every thread of `pid` is traced. Raises: RunFailed."""
    end_s = time.monotonic() + ATTACHED_S_MAX
    while time.monotonic() < end_s and tracer.poll() is None:
        statuses = [
            task.read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").glob("*/status")
        ]
        if all(f"TracerPid:\t{tracer.pid}\n" in status for status in statuses):
            return
        time.sleep(0.01)
    raise RunFailed(f"strace could not attach to {pid}: it may need to be run as root")


def traced(program: Path, broker: Broker, words: Sequence[str]) -> dict[str, int]:
    """The broker's calls while the generator runs. Raises: RunFailed."""
    pid = broker.pids[0]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "calls"
        tracer = subprocess.Popen(
            ["strace", "-f", "-c", "-o", str(out), "-p", str(pid)], stderr=subprocess.DEVNULL
        )
        try:
            await_tracer(pid, tracer)
            run_once(program, broker, words, 0.0)
        finally:
            if tracer.poll() is None:
                tracer.send_signal(signal.SIGINT)
            tracer.wait()
        return parse_counts(out.read_text(encoding="utf-8"))


def count_row(program: Path, broker: Broker, workload: Workload, count: int) -> Counted:
    """Run the row twice, with and without strace. Raises: RunFailed."""
    words = (*workload.options, "--stall", "60", "-n")
    few = count // 10
    run_once(program, broker, (*words, str(few)), 0.0)
    before = switches(broker.pids[0])
    run_once(program, broker, (*words, str(count)), 0.0)
    wake_ups = (switches(broker.pids[0]) - before) / count
    # The difference of two lengths has neither handshakes nor what goes on by itself.
    short, long = (traced(program, broker, (*words, str(one))) for one in (few, count))
    calls = {
        name: max(0.0, (number - short.get(name, 0)) / (count - few))
        for name, number in long.items()
    }
    return Counted(calls, wake_ups)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--only", default=",".join(ROWS), help="rows of bench/run.py")
    parser.add_argument("--smoke", action="store_true", help="few messages")
    parser.add_argument("--out", type=Path, default=None, help="write the counts there, as JSON")
    options = parser.parse_args(words)
    options.rows = options.only.split(",")
    unknown = set(options.rows) - {one.name for one in WORKLOADS if one.has_limit}
    if unknown:
        parser.error(f"no such row, or one without a relay: {', '.join(sorted(unknown))}")
    return options


def main(words: Sequence[str]) -> int:
    """Count; 0 done, 2 when it cannot run."""
    options = parsed(words)
    if shutil.which("strace") is None:
        print(STRACE_MISSING, file=sys.stderr)
        return 2
    brokers: list[tuple[Target, Broker]] = []
    found: dict[str, dict[str, dict[str, object]]] = {}
    program: Path | None = None
    try:
        program = build_generator()
        ours = penstock_target(options.python, ("--data", "data"))
        print(f"{ours.version}; {', '.join(f'{key} {value}' for key, value in describe().items())}")
        print("system calls and wake-ups per message")
        for target in (ours, limit_target(limit_beside(program))):
            brokers.append((target, target.start()))
        for workload in WORKLOADS:
            if workload.name not in options.rows:
                continue
            print(f"{workload.name}: {workload.question}")
            found[workload.name] = {}
            for target, broker in brokers:
                if not takes_part(target, workload):
                    continue
                count = SMOKE_COUNT if options.smoke else COUNTS.get(workload.name, COUNT)
                counted = count_row(program, broker, workload, count)
                print(f"  {target.name:<18} {counted.text()}", flush=True)
                found[workload.name][target.name] = {
                    "calls": counted.calls,
                    "wake_ups": counted.wake_ups,
                }
    except (BrokerFailed, RunFailed) as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        for _, broker in brokers:
            broker.stop()
        if program is not None:
            forget_generator(program)
        forget_cache()
    if options.out:
        result = {"machine": describe(), "version": ours.version, "rows": found}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
