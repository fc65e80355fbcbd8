"""What each feature costs a message: one broker with it and one without, in processor time.

    python bench/feature_costs.py                       from this checkout, interpreted
    python bench/feature_costs.py --python PATH         as installed for that interpreter (compiled)
    python bench/feature_costs.py --smoke               fixed counts: does everything arrive?

    recorder       flight recorder and time accounts, which are on unless told
    parking        a connection may park publishes of a queue that takes none, which it may
                   unless told; no queue is full here, so this is what being ready for it costs
    permissions    a user with patterns instead of '.*'
    tls            clients through TLS
    management     HTTP API and metrics, a process beside the broker: what it takes of the broker's
                   own time, with the metrics asked for once a second

All brokers run side by side, and every repeat asks each of them once, in random order. A cost is
the processor time of the broker's process per message with the feature, divided by that without in
the same repeat, with the interval that a studentized bootstrap gives it (bench/compare.py, 95 %).
Persistence is a row of bench/run.py (c1k against b1k); replication has bench/cluster.py.
"""

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import (
    LOOPBACK,
    Broker,
    BrokerFailed,
    Target,
    forget_cache,
    free_port,
    make_certificates,
    penstock_environment,
    penstock_target,
)
from bench.compare import interval
from bench.machine import describe
from bench.measure import RunFailed, build_generator, forget_generator, run_once
from bench.workloads import WORKLOADS, Workload

ROWS: Final = ("a16", "b1k1")
PLAIN: Final = "plain"
# By feature: the broker with it, and the one without.
FEATURES: Final = {
    "recorder": (PLAIN, "no-recorder"),
    "parking": (PLAIN, "no-parking"),
    "permissions": ("permissions", PLAIN),
    "tls": ("tls", PLAIN),
    "management": ("management", PLAIN),
}
SETTINGS: Final = {
    "no-recorder": "recorder_events = 0\ntime_accounting = false\n",
    "no-parking": "parked_bytes = 0\n",
}
USER: Final = "narrow"
PASSWORD: Final = "narrow-password"
PATTERN: Final = r"^(pq[0-9]+|amq\.default|perf\.fan)$"
LEVEL: Final = 0.95
PAUSE_S: Final = 0.2
ASKED_EVERY_S: Final = 1.0
REPEATS_MIN: Final = 2


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one feature in one row. share: of the processor time without it, low and high its
    interval; with_us, without_us: medians, microseconds a message."""

    share: float
    low: float
    high: float
    with_us: float
    without_us: float

    def text(self) -> str:
        """One line."""
        return (
            f"{100 * self.share:+6.1f} % ({100 * self.low:+.1f} to {100 * self.high:+.1f})"
            f"   {self.with_us:.3g} us/msg against {self.without_us:.3g}"
        )


def cost_of(having: Sequence[float], without: Sequence[float]) -> Cost:
    """Of the same repeats with and without, two or more, in microseconds a message."""
    logs = [math.log(one / other) for one, other in zip(having, without, strict=True)]
    mean, low, high = interval([0.0] * len(logs), logs, LEVEL)
    middle = len(logs) // 2
    return Cost(
        math.expm1(mean),
        math.expm1(low),
        math.expm1(high),
        sorted(having)[middle],
        sorted(without)[middle],
    )


def targets_of(plain: Target, folder: Path, names: set[str]) -> dict[str, Target]:
    """Recipes by name. Raises: BrokerFailed."""
    found: dict[str, Target] = {}
    for name in sorted(names):
        words = (*plain.arguments, "--no-management")
        if name in SETTINGS:
            path = folder / f"{name}.toml"
            path.write_text(SETTINGS[name], encoding="utf-8")
            words = (*words, "--config", str(path))
        if name == "management":
            ports = ("--http-port", str(free_port()), "--metrics-port", str(free_port()))
            words = (*plain.arguments, "--management", *ports)
        found[name] = replace(plain, name=name, arguments=words)
    if "tls" in found:
        make_certificates(folder / "certificates")
        found["tls"] = replace(found["tls"], certificates=folder / "certificates")
    return found


def narrow(target: Target, broker: Broker) -> None:
    """Let the generator come as a user who has rights to its own queues only.

    Raises: BrokerFailed.
    """
    calls = (
        ("users", "add", USER, PASSWORD),
        ("permissions", "set", USER, PATTERN, PATTERN, PATTERN),
    )
    for call in calls:
        command = [target.where or sys.executable, "-m", "penstock.cli.main", *call]
        command += ["--port", str(broker.port)]
        done = subprocess.run(
            command,
            env=penstock_environment(not target.where, None),
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise BrokerFailed(f"penstock {call[0]} {call[1]}: {done.stderr or done.stdout}")
    broker.user, broker.password = USER, PASSWORD


def ask_metrics(target: Target, ended: threading.Event) -> None:
    """As Prometheus does, until `ended`."""
    port = target.arguments[target.arguments.index("--metrics-port") + 1]
    while not ended.wait(ASKED_EVERY_S):
        with suppress(OSError), urlopen(f"http://{LOOPBACK}:{port}/metrics", timeout=5) as answer:
            answer.read()


def one_run(
    program: Path, broker: Broker, workload: Workload, words: Sequence[str], seconds: float
) -> float:
    """Microseconds a message. Raises: RunFailed."""
    sample = run_once(program, broker, (*workload.options, *words), seconds)
    if sample.lost or sample.wrong or sample.disorder or sample.nacks:
        raise RunFailed(f"{workload.name}, {broker.name}: lost {sample.lost}, nacks {sample.nacks}")
    return sample.cpu_us


def measured(
    program: Path, brokers: dict[str, Broker], workload: Workload, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Microseconds a message of every broker, a repeat each. Raises: RunFailed."""
    chance = random.Random(options.seed)
    found: dict[str, list[float]] = {name: [] for name in brokers}
    words: tuple[str, ...] = ("-w", str(options.warm_up), "-t", str(options.seconds))
    seconds = options.warm_up + options.seconds
    if options.smoke:
        words, seconds = ("-n", str(workload.count), "--stall", "60"), 0.0
    for _ in range(1 if options.smoke else options.repeats):
        for name in chance.sample(sorted(brokers), len(brokers)):
            found[name].append(one_run(program, brokers[name], workload, words, seconds))
            time.sleep(PAUSE_S)
    return found


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options; exits 2 when they make no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--features", default=",".join(FEATURES), help="these only")
    parser.add_argument("--only", default=",".join(ROWS), help="rows of bench/run.py")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--warm-up", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args(words)
    options.rows, options.chosen = options.only.split(","), options.features.split(",")
    unknown = set(options.rows) - {one.name for one in WORKLOADS if not one.half_of}
    unknown |= set(options.chosen) - set(FEATURES)
    if unknown or options.repeats < REPEATS_MIN or options.seconds <= 0:
        parser.error(f"unknown {sorted(unknown)}, or a number that makes no sense")
    return options


def main(words: Sequence[str]) -> int:
    """Measure; 0 done, 2 when it cannot run."""
    options = parsed(words)
    folder = Path(tempfile.mkdtemp(prefix="feature-costs-"))
    brokers: dict[str, Broker] = {}
    rows: dict[str, dict[str, object]] = {}
    program: Path | None = None
    ended = threading.Event()
    try:
        names = {name for feature in options.chosen for name in FEATURES[feature]}
        program = build_generator("tls" in names)
        plain = penstock_target(options.python)
        print(
            f"{plain.version}; {', '.join(f'{key} {value}' for key, value in describe().items())}"
        )
        for name, target in targets_of(plain, folder, names).items():
            brokers[name] = target.start()
            if name == "permissions":
                narrow(target, brokers[name])
            if name == "management":
                threading.Thread(target=ask_metrics, args=(target, ended), daemon=True).start()
        for workload in WORKLOADS:
            if workload.name not in options.rows:
                continue
            found = measured(program, brokers, workload, options)
            if options.smoke:
                print(f"{workload.name}: arrived through {', '.join(sorted(found))}")
                continue
            costs = {
                one: cost_of(*(found[name] for name in FEATURES[one])) for one in options.chosen
            }
            for feature, cost in costs.items():
                print(f"{workload.name:<6} {feature:<12} {cost.text()}", flush=True)
            rows[workload.name] = {
                "runs_us": found,
                "costs": {one: [cost.share, cost.low, cost.high] for one, cost in costs.items()},
            }
    except (BrokerFailed, RunFailed) as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        ended.set()
        for broker in brokers.values():
            broker.stop()
        if program is not None:
            forget_generator(program)
        forget_cache()
        shutil.rmtree(folder, ignore_errors=True)
    if options.out:
        result = {"machine": describe(), "version": plain.version, "rows": rows}
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
