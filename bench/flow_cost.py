"""What explaining costs: the broker with and without flight recorder and time accounting.

Question: how much throughput do the recorder and the accounts of time and holds take? Expected from
a sketch: two additions a turn of up to 1024 messages and one event a gate change, so about 1 %; the
promise is COST_MAX. The rounds of snapshots, once a second, run in both: their cost is by the
connection and not by the message, see `--rounds`.

Both brokers run side by side, and every repeat asks each of them once in random order, so that what
else happens on the machine hits both. The verdict is on the CPU time of the broker's process per
message, which a busy machine disturbs less than rates: the median over the repeats of what one of
them cost more. When the middle half of the repeats lies on both sides of COST_MAX the row is
undecided, which is no failure: the machine is too noisy for an answer. Rates are shown beside it.

    python bench/flow_cost.py                       from this checkout, interpreted
    python bench/flow_cost.py --python PATH         as installed for that interpreter (compiled)
    python bench/flow_cost.py --smoke               fixed counts: does everything arrive?
    python bench/flow_cost.py --rounds 5000         a round of snapshots of so many connections
"""

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

# Run as a program the directory above is not on the path yet.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import Broker, BrokerFailed, Target, forget_cache, penstock_target
from bench.machine import describe
from bench.measure import RunFailed, build_generator, forget_generator, run_once
from bench.report import smoke_hash
from bench.workloads import WORKLOADS, Workload

COST_MAX: Final = 0.05
ROWS: Final = ("a16", "b1k", "b1k1")
OFF: Final = "recorder_events = 0\ntime_accounting = false\n"
PAUSE_S: Final = 0.3


def targets_of(python: str, directory: Path) -> tuple[Target, Target]:
    """The same broker with the recorder and the accounts, and without. Raises: BrokerFailed."""
    settings = directory / "off.toml"
    settings.write_text(OFF, encoding="utf-8")
    plain = penstock_target(python)
    without = replace(plain, name="off", arguments=("--config", str(settings)))
    return replace(plain, name="on"), without


def compare(on: Sequence[float], off: Sequence[float]) -> dict[str, float]:
    """Rates of the same repeats with and without: medians, ranges, and the share that is lost.

    cost: median over repeats of 1 - on/off, below 0 when noise is larger than the cost; cost_low,
    cost_high: the middle half of them lies between."""
    costs = [1 - with_it / without for with_it, without in zip(on, off, strict=True)]
    quarters = statistics.quantiles(costs, method="inclusive") if len(costs) > 1 else costs * 3
    return {
        "on": statistics.median(on),
        "on_min": min(on),
        "on_max": max(on),
        "off": statistics.median(off),
        "off_min": min(off),
        "off_max": max(off),
        "cost": statistics.median(costs),
        "cost_low": quarters[0],
        "cost_high": quarters[2],
    }


def verdict(found: dict[str, float]) -> str:
    """`within`, `ABOVE` or `undecided`, of a row from `compare`."""
    if found["cost_high"] <= COST_MAX:
        return "within"
    if found["cost_low"] > COST_MAX:
        return "ABOVE"
    return "undecided, within" if found["cost"] <= COST_MAX else "undecided, above"


def line(name: str, cpu: dict[str, float], rate: dict[str, float]) -> str:
    """One row of the report: CPU time decides, rates are for information."""
    return (
        f"{name:<6} cpu on {1e6 / cpu['on']:6.2f} us/msg, off {1e6 / cpu['off']:6.2f}: "
        f"cost {100 * cpu['cost']:5.1f} % (middle half {100 * cpu['cost_low']:.1f} to "
        f"{100 * cpu['cost_high']:.1f}), {verdict(cpu)} {100 * COST_MAX:.0f} %   "
        f"rate on {rate['on']:,.0f}/s ({rate['on_min']:,.0f} to {rate['on_max']:,.0f}), "
        f"off {rate['off']:,.0f}/s ({rate['off_min']:,.0f} to {rate['off_max']:,.0f}): "
        f"cost {100 * rate['cost']:.1f} %"
    )


def measured(
    program: Path, brokers: dict[str, Broker], workload: Workload, options: argparse.Namespace
) -> tuple[dict[str, float], dict[str, float]]:
    """By CPU time and by rate: `repeats` runs on each broker, in random order within a repeat.
    Raises: RunFailed."""
    chance = random.Random(options.seed)
    rates: dict[str, list[float]] = {name: [] for name in brokers}
    speeds: dict[str, list[float]] = {name: [] for name in brokers}
    words = (*workload.options, "-w", str(options.warm_up), "-t", str(options.seconds))
    for _ in range(options.repeats):
        for name in chance.sample(sorted(brokers), len(brokers)):
            sample = run_once(program, brokers[name], words, options.warm_up + options.seconds)
            if sample.lost or sample.wrong or sample.disorder:
                raise RunFailed(
                    f"{workload.name}, {name}: lost {sample.lost}, wrong {sample.wrong}"
                )
            rates[name].append(sample.rate)
            speeds[name].append(1e6 / sample.cpu_us)
            time.sleep(PAUSE_S)
    return compare(speeds["on"], speeds["off"]), compare(rates["on"], rates["off"])


def smoke(program: Path, brokers: dict[str, Broker], workloads: Sequence[Workload]) -> str:
    """Fixed counts on both: a hash of what arrived, the same for both. Raises: RunFailed."""
    hashes = set()
    for broker in brokers.values():
        facts: list[dict[str, object]] = []
        for workload in workloads:
            words = (*workload.options, "-n", str(workload.count), "--stall", "60")
            sample = run_once(program, broker, words, 0.0)
            if sample.lost or sample.wrong or sample.disorder:
                raise RunFailed(f"{workload.name}: lost {sample.lost}, wrong {sample.wrong}")
            facts.append({"row": workload.name, "got": sample.got, "sent": sample.sent})
        hashes.add(smoke_hash(facts))
    if len(hashes) != 1:
        raise RunFailed(f"both brokers delivered, but not the same: {sorted(hashes)}")
    return hashes.pop()


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default=",".join(ROWS), help="rows of bench/run.py")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--rounds", type=int, default=0, help="connections in a round, and no load")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(words)
    options.rows = options.only.split(",")
    unknown = set(options.rows) - {workload.name for workload in WORKLOADS}
    if unknown or options.repeats < 1 or options.seconds <= 0 or options.rounds < 0:
        parser.error(f"unknown rows {sorted(unknown)}, or a number that makes no sense")
    return options


def main(words: Sequence[str]) -> int:
    """Run it; 0 within the promise, 1 above it or broken, 2 when it cannot run."""
    options = parsed(words)
    if options.rounds:
        from bench.round_cost import report

        print(report(options.rounds))
        return 0
    directory = Path(tempfile.mkdtemp(prefix="flow-cost-"))
    brokers: dict[str, Broker] = {}
    rows: dict[str, dict[str, dict[str, float]]] = {}
    program: Path | None = None
    try:
        program = build_generator()
        on, off = targets_of(options.python, directory)
        print(f"{on.version}; {', '.join(f'{key} {value}' for key, value in describe().items())}")
        for target in (on, off):
            brokers[target.name] = target.start()
        chosen = [workload for workload in WORKLOADS if workload.name in options.rows]
        if options.smoke:
            print(f"counts {smoke(program, brokers, chosen)}")
            return 0
        for workload in chosen:
            cpu, rate = measured(program, brokers, workload, options)
            rows[workload.name] = {"cpu": cpu, "rate": rate}
            print(line(workload.name, cpu, rate), flush=True)
    except (BrokerFailed, RunFailed) as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        for broker in brokers.values():
            broker.stop()
        if program is not None:
            forget_generator(program)
        forget_cache()
        shutil.rmtree(directory, ignore_errors=True)
    if options.out:
        found = {"machine": describe(), "version": on.version, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 1 if any(verdict(row["cpu"]) == "ABOVE" for row in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
