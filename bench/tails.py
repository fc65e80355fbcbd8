"""The slowest answers: one client plays ping-pong while others load the broker.

    python bench/tails.py                               from this checkout, interpreted
    python bench/tails.py --python PATH                 as installed for that interpreter (compiled)
    python bench/tails.py --seconds 60 --only idle,b1k1
    python bench/tails.py --smoke                       half a second each: does everything arrive?

The ping-pong (one unconfirmed 16 B message at a time, a queue of its own) says p50, p99, p99.9 and
the longest time in which nothing came back. Beside it runs one row of bench/run.py, or nothing
(`idle`). The relay of limit.c is asked for the same: what it shows as well is the machine's, since
broker and two generators share its cores, and not the broker's. `no core` is the share of the time
in which the broker's first thread could have run and had no processor (/proc/PID/schedstat): a
pause while others have the cores is theirs.

Wanted of Penstock, compiled: p99.9 at most P999_US_MAX, no pause above PAUSE_US_MAX.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
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
from bench.measure import (
    OVERHEAD_SECONDS_MAX,
    RunFailed,
    always,
    build_generator,
    forget_generator,
    generator_command,
    limit_beside,
    run_lines,
)
from bench.report import duration, takes_part
from bench.workloads import WORKLOADS, Workload

P999_US_MAX: Final = 5_000.0
PAUSE_US_MAX: Final = 25_000.0
IDLE: Final = "idle"
LOADS: Final = (IDLE, "fixed20k", "a16", "b1k1", "c1kw", "d16", "q8", "pp50")
PING: Final = ("-s", "16", "--confirm", "1", "--qprefix", "ping")
# The load begins before the ping-pong is measured, and ends after it.
LEAD_S: Final = 0.5
SMOKE_S: Final = 0.5
DRAIN_S: Final = 80
"""For what a minute of a flood has left in the queues: below OVERHEAD_SECONDS_MAX."""


@dataclass(frozen=True, slots=True)
class Tail:
    """Of one ping-pong, in microseconds. rate: of the load, messages a second; no_core: share of
    the time in which the broker waited for a processor, 0.0 where the system does not say."""

    p50_us: float
    p99_us: float
    p999_us: float
    longest_us: float
    rate: float
    no_core: float = 0.0

    def text(self) -> str:
        """One line's worth."""
        parts = (self.p50_us, self.p99_us, self.p999_us, self.longest_us)
        load = f"beside {self.rate:,.0f}/s, no core {self.no_core:.0%}"
        return f"{'/'.join(duration(part) for part in parts):<28} {load}"

    def verdict(self) -> str:
        """Whether it is what is wanted."""
        missed = []
        if self.p999_us > P999_US_MAX:
            missed.append(f"p99.9 above {duration(P999_US_MAX)}")
        if self.longest_us > PAUSE_US_MAX:
            missed.append(f"a pause above {duration(PAUSE_US_MAX)}")
        return ", ".join(missed) or "as wanted"


def result_of(
    program: Path, broker: Broker, words: Sequence[str], seconds: float
) -> dict[str, object]:
    """The generator's own result. Raises: RunFailed."""
    command = generator_command(program, broker, words)
    lines = run_lines(command, seconds + OVERHEAD_SECONDS_MAX, always)
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError) as error:
        raise RunFailed("the generator's last line is not a result") from error
    if not isinstance(found, dict) or found["lost"]:
        raise RunFailed(f"lost messages: {lines[-1][:200]}")
    return found


def waited_ns(pid: int) -> int:
    """How long the first thread of a process has been ready and without a processor; 0 where the
    system does not say."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def tail_of(program: Path, broker: Broker, load: Workload | None, seconds: float) -> Tail:
    """Ping-pong for so long beside a load. Raises: RunFailed."""
    pid, began_ns = broker.pids[0], time.monotonic_ns()
    before_ns = waited_ns(pid)
    ping = (*PING, "-w", str(LEAD_S), "-t", str(seconds))
    with ThreadPoolExecutor(1) as beside:
        other = None
        if load is not None:
            spans = ("-w", "0", "-t", str(seconds + 2 * LEAD_S), "--drain", str(DRAIN_S))
            words = (*load.options, *spans)
            other = beside.submit(result_of, program, broker, words, seconds + 2 * LEAD_S)
        found = result_of(program, broker, ping, seconds + LEAD_S)
        rate = other.result()["got_rate"] if other is not None else 0.0
    no_core = (waited_ns(pid) - before_ns) / (time.monotonic_ns() - began_ns)
    times = found["lat_us"]
    assert isinstance(times, dict) and isinstance(rate, (int, float)), "as loadgen.c writes them"
    p50, p99, p999, longest = (float(times[key]) for key in ("p50", "p99", "p999", "max"))
    return Tail(p50, p99, p999, longest, float(rate), no_core)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options; exits 2 when they make no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--only", default=",".join(LOADS), help="these loads")
    parser.add_argument("--seconds", type=float, default=60.0, help="a load and broker (60)")
    parser.add_argument("--no-limit", action="store_true", help="without the relay")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="write the figures there, as JSON")
    options = parser.parse_args(words)
    options.loads = options.only.split(",")
    unknown = set(options.loads) - {IDLE} - {one.name for one in WORKLOADS if not one.half_of}
    if unknown or options.seconds <= 0:
        parser.error(f"unknown loads {sorted(unknown)}, or --seconds that makes no sense")
    if options.smoke:
        options.seconds = SMOKE_S
    return options


def main(words: Sequence[str]) -> int:
    """Measure; 0 done, 2 when it cannot run. What is wanted and missed is said, no failure."""
    options = parsed(words)
    rows = {one.name: one for one in WORKLOADS}
    brokers: list[tuple[Target, Broker]] = []
    found: dict[str, dict[str, object]] = {}
    program: Path | None = None
    try:
        program = build_generator()
        ours = penstock_target(options.python, ("--data", "data"))
        print(f"{ours.version}; {', '.join(f'{key} {value}' for key, value in describe().items())}")
        print(f"ping-pong p50/p99/p99.9/longest, {options.seconds:g} s beside each load")
        relay = () if options.no_limit else (limit_target(limit_beside(program)),)
        for target in (ours, *relay):
            brokers.append((target, target.start()))
        for name in options.loads:
            load = rows.get(name)
            found[name] = {}
            for target, broker in brokers:
                if load is not None and not takes_part(target, load):
                    continue
                tail = tail_of(program, broker, load, options.seconds)
                said = tail.verdict() if target.is_compiled else ""
                print(f"{name:<9} {target.name:<18} {tail.text()}  {said}".rstrip(), flush=True)
                found[name][target.name] = asdict(tail)
                time.sleep(LEAD_S)
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
