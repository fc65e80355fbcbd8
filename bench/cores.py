"""One broker process and several, with the load in two virtual hosts, plain and by TLS.

    python bench/cores.py                     from this checkout, interpreted
    python bench/cores.py --python PATH       as installed for that interpreter (compiled)
    python bench/cores.py --smoke             fixed counts: does everything arrive?

    two       a generator in each of two virtual hosts at once; with `serve --cores 2` each has a
              worker of its own
    tls       one virtual host, clients by TLS, which both workers accept: what it costs that
              one of them has it

Both brokers run side by side, and every repeat asks each of them once, in random order. Of each:
the rate of all generators together, processor time a message of all its processes, and of the
busiest of them. What a second of the busiest process moves is the rate that a machine would have
which has cores enough for every process and for the clients; two cores that carry the generators
as well do not show it.
"""

import argparse
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.brokers import (
    START_SECONDS_MAX,
    Broker,
    BrokerFailed,
    Target,
    forget_cache,
    make_certificates,
    penstock_environment,
    penstock_target,
)
from bench.machine import describe
from bench.measure import RunFailed, build_generator, forget_generator, run_once
from bench.workloads import WORKLOADS, Workload

ROWS: Final = ("a16", "b1k1")
SECOND: Final = "second"
KINDS: Final = {"two": ("/", SECOND), "tls": ("/",)}
"""By kind of load the virtual hosts that a generator each is in."""
CORES: Final = (1, 2)
PAUSE_S: Final = 0.3


@dataclass(frozen=True, slots=True)
class Run:
    """rate: messages a second of all generators; all_us, busiest_us: processor time a message of
    all processes of the broker, and of the one that took most."""

    rate: float
    all_us: float
    busiest_us: float


def processes_of(broker: Broker) -> list[psutil.Process]:
    """The broker's own and its workers."""
    found = [psutil.Process(pid) for pid in broker.pids]
    return [*found, *(child for one in found for child in one.children(recursive=True))]


def processor_s(processes: Sequence[psutil.Process]) -> list[float]:
    """What each has used."""
    return [one.cpu_times().user + one.cpu_times().system for one in processes]


def add_vhost(target: Target, broker: Broker) -> None:
    """Once commands are answered, which is when all workers are there. Raises: BrokerFailed."""
    words = [target.where or sys.executable, "-m", "penstock.cli.main", "vhosts", "add", SECOND]
    end_s = time.monotonic() + START_SECONDS_MAX
    while True:
        done = subprocess.run(
            [*words, "--port", str(broker.port)],
            env=penstock_environment(not target.where, None),
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return
        if time.monotonic() > end_s:
            raise BrokerFailed(f"penstock vhosts add: {done.stderr or done.stdout}")
        time.sleep(PAUSE_S)


def one_run(
    program: Path, broker: Broker, workload: Workload, vhosts: Sequence[str], words: Sequence[str]
) -> Run:
    """Generators in all `vhosts` at once. Raises: RunFailed."""
    processes = processes_of(broker)
    before = processor_s(processes)
    # The generator's own look at the broker would count for each of them.
    unseen = unwatched(broker)
    with ThreadPoolExecutor(len(vhosts)) as beside:
        runs = [
            beside.submit(
                run_once, program, unseen, (*workload.options, *words, "--vhost", vhost), 0.0
            )
            for vhost in vhosts
        ]
        samples = [one.result() for one in runs]
    if any(one.lost or one.wrong or one.disorder for one in samples):
        raise RunFailed(f"{workload.name}: lost {[one.lost for one in samples]}")
    spent = [now - then for now, then in zip(processor_s(processes), before, strict=True)]
    count = max(1, sum(one.got for one in samples))
    rate = sum(one.rate for one in samples)
    return Run(rate, sum(spent) / count * 1e6, max(spent) / count * 1e6)


def unwatched(broker: Broker) -> Broker:
    """The same broker, of which the generator knows no process."""
    return Broker(
        broker.name,
        broker.host,
        broker.port,
        broker.version,
        user=broker.user,
        password=broker.password,
        is_tls=broker.is_tls,
    )


def start_all(plain: Target, kind: str, folder: Path, found: dict[int, Broker]) -> None:
    """Puts them into `found`, by the number of cores. Raises: BrokerFailed."""
    for count in CORES:
        words = (*plain.arguments, "--no-management", "--cores", str(count))
        target = replace(plain, name=f"{kind}-{count}", arguments=words)
        if kind == "tls":
            target = replace(target, certificates=folder)
        found[count] = target.start()
        if kind == "two":
            add_vhost(target, found[count])


def measured(
    program: Path,
    brokers: dict[int, Broker],
    workload: Workload,
    kind: str,
    options: argparse.Namespace,
) -> dict[int, list[Run]]:
    """A repeat each. Raises: RunFailed."""
    chance = random.Random(options.seed)
    words: tuple[str, ...] = ("-w", "0.3", "-t", str(options.seconds))
    if options.smoke:
        words = ("-n", str(workload.count), "--stall", "60")
    found: dict[int, list[Run]] = {count: [] for count in brokers}
    for _ in range(1 if options.smoke else options.repeats):
        for count in chance.sample(sorted(brokers), len(brokers)):
            run = one_run(program, brokers[count], workload, KINDS[kind], words)
            found[count].append(run)
            time.sleep(PAUSE_S)
    return found


def line_of(kind: str, row: str, found: dict[int, list[Run]]) -> str:
    """Medians of both, and ratios repeat by repeat with their range."""
    single, several = found[CORES[0]], found[CORES[1]]
    parts = [f"{kind:<4} {row:<5}"]
    for runs in (single, several):
        rate = statistics.median(one.rate for one in runs)
        every = statistics.median(one.all_us for one in runs)
        busiest = statistics.median(one.busiest_us for one in runs)
        parts.append(f"{rate:>11,.0f}/s {every:6.2f} us, busiest {busiest:6.2f} us")
    pairs = list(zip(several, single, strict=True))
    for what, ratios in (
        ("rate", [one.rate / other.rate for one, other in pairs]),
        ("cost", [one.all_us / other.all_us for one, other in pairs]),
        ("of the busiest", [other.busiest_us / one.busiest_us for one, other in pairs]),
    ):
        middle = statistics.median(ratios)
        parts.append(f"{what} x {middle:.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
    return "  ".join(parts)


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """The options; exits 2 when they make no sense."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--python", default="", help="interpreter with penstock installed")
    parser.add_argument("--only", default=",".join(ROWS), help="rows of bench/run.py")
    parser.add_argument("--kinds", default=",".join(KINDS), help="two, tls")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=None, help="write the figures there, as JSON")
    options = parser.parse_args(words)
    options.rows, options.chosen = options.only.split(","), options.kinds.split(",")
    unknown = set(options.rows) - {one.name for one in WORKLOADS if not one.half_of}
    unknown |= set(options.chosen) - set(KINDS)
    if unknown or options.repeats < 1 or options.seconds <= 0:
        parser.error(f"unknown {sorted(unknown)}, or a number that makes no sense")
    return options


def main(words: Sequence[str]) -> int:
    """Measure; 0 done, 2 when it cannot run."""
    options = parsed(words)
    folder = Path(tempfile.mkdtemp(prefix="cores-"))
    brokers: dict[int, Broker] = {}
    rows: dict[str, object] = {}
    program: Path | None = None
    try:
        program = build_generator("tls" in options.chosen)
        plain = penstock_target(options.python)
        print(
            f"{plain.version}; {', '.join(f'{key} {value}' for key, value in describe().items())}"
        )
        if "tls" in options.chosen:
            make_certificates(folder / "certificates")
        for kind in options.chosen:
            start_all(plain, kind, folder / "certificates", brokers)
            for workload in [one for one in WORKLOADS if one.name in options.rows]:
                found = measured(program, brokers, workload, kind, options)
                if options.smoke:
                    print(f"{kind} {workload.name}: arrived through 1 and 2 workers")
                    continue
                print(line_of(kind, workload.name, found), flush=True)
                rows[f"{kind} {workload.name}"] = {
                    str(count): [asdict(run) for run in runs] for count, runs in found.items()
                }
            while brokers:
                brokers.popitem()[1].stop()
    except (BrokerFailed, RunFailed) as failure:
        print(failure, file=sys.stderr)
        return 2
    finally:
        for broker in brokers.values():
            broker.stop()
        if program is not None:
            forget_generator(program)
        forget_cache()
        shutil.rmtree(folder, ignore_errors=True)
    if options.out:
        options.out.write_text(json.dumps({**describe(), "rows": rows}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
