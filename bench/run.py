"""Compare Penstock with other brokers on this machine, or prove with --smoke that nothing is lost.

    python bench/run.py                      everything, 3 repeats of 2 s per row and target
    python bench/run.py --only a16,b1k,pp    some rows
    python bench/run.py --only persistent    the rows whose messages survive
    python bench/run.py --only b1k --tls     every client through TLS
    python bench/run.py --smoke              fixed message counts, no rival, under 20 s

Targets run interleaved in a seeded random order, so that a busy minute hits all of them. Exit code
0: done; 1: a run failed or a message was lost; 2: the call makes no sense.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

# The rows are also imported by the tests, as `bench.…`, from the root of the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.brokers import (
    LAVINMQ_MISSING,
    LIMIT,
    QUORUM,
    RABBITMQ_MISSING,
    Broker,
    BrokerFailed,
    Target,
    forget_cache,
    lavinmq_target,
    limit_target,
    make_certificates,
    penstock_target,
    rabbitmq_target,
    rival_target,
)
from bench.machine import available_mb, describe, file_system
from bench.measure import (
    Probe,
    RunFailed,
    Sample,
    build_generator,
    forget_generator,
    limit_beside,
    probe_sync,
    run_once,
)
from bench.report import (
    Samples,
    resource_report,
    smoke_facts,
    smoke_faults,
    smoke_hash,
    takes_part,
    workload_report,
)
from bench.resources import (
    FULL,
    PROBE_MS,
    SMOKE,
    Scale,
    measure_drain,
    measure_memory,
    measure_overload,
)
from bench.workloads import RESOURCE_QUESTIONS, ROW_NAMES, WORKLOADS, Workload

# Between two runs: the last one's connections are gone and its queues deleted.
PAUSE_S = 0.2
# One word for all rows whose messages survive.
PERSISTENT = "persistent"
PERSISTENT_ROWS = [workload.name for workload in WORKLOADS if workload.is_persistent]


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line; exits 2 when it makes no sense."""
    parser = argparse.ArgumentParser(
        prog="bench/run.py",
        description=(__doc__ or "").splitlines()[0],
        epilog=f"rows: {' '.join(ROW_NAMES)}; {PERSISTENT}: {' '.join(PERSISTENT_ROWS)}",
    )
    parser.add_argument("--only", default="", metavar="ROW,...", help="these rows, no others")
    parser.add_argument("--repeats", type=int, default=3, help="runs per row and target (3)")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured per run (2)")
    parser.add_argument("--warm-up", type=float, default=1.0, help="seconds before that (1)")
    parser.add_argument("--seed", type=int, default=1, help="of the order of runs (1)")
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="T",
        help="penstock (this checkout, interpreted), penstock=PYTHON (as installed there; several "
        "of one build are called after their Pythons), rabbitmq, rabbitmq=quorum (with quorum "
        "queues, in the durable rows), lavinmq, lavinmq=PROGRAM; repeatable. Default: this "
        "checkout, the installation of this interpreter if it is compiled, and the others as far "
        "as they are installed",
    )
    parser.add_argument(
        "--lavinmq", default="", metavar="PROGRAM", help="LavinMQ, where it is not on the PATH"
    )
    parser.add_argument(
        "--rival",
        action="append",
        default=[],
        metavar="URL",
        help="a broker that already runs: amqp://[user:password@]host:port[?name=X&pid=N]",
    )
    parser.add_argument(
        "--serve-option",
        action="append",
        default=[],
        metavar="WORD",
        help="one more word for `penstock serve`, as --serve-option=--word; repeatable",
    )
    parser.add_argument(
        "--tls",
        action="store_true",
        help="every client through TLS, with what each broker and OpenSSL agree on by themselves "
        "(Penstock and RabbitMQ; needs libssl-dev and the extra tls)",
    )
    parser.add_argument("--overload-s", type=float, default=20.0, help="length of the flood (20)")
    parser.add_argument(
        "--depth-mb",
        type=float,
        default=64.0,
        help="what a queue of Penstock may hold in the overload row, MiB (64)",
    )
    parser.add_argument(
        "--rss-mb-max",
        type=float,
        help="stop an overload run when a broker grows beyond this (half of what is available)",
    )
    parser.add_argument("--out", type=Path, help="write everything measured there, as JSON")
    parser.add_argument("--smoke", action="store_true", help="fixed counts, prints their hash")
    parser.add_argument(
        "--no-limit",
        action="store_true",
        help="without the relay that shows how far from this machine's limit each row is",
    )
    options = parser.parse_args(words)
    wanted = [row for row in options.only.split(",") if row]
    if PERSISTENT in wanted:
        wanted = [row for row in wanted if row != PERSISTENT] + PERSISTENT_ROWS
    options.rows = wanted or list(ROW_NAMES)
    unknown = [row for row in options.rows if row not in ROW_NAMES]
    if unknown:
        parser.error(f"no such row: {', '.join(unknown)}; rows: {' '.join(ROW_NAMES)}")
    if options.tls and (options.rival or options.lavinmq):
        parser.error("--tls is for brokers that are started here: penstock and rabbitmq")
    if options.repeats < 1 or options.seconds <= 0 or options.warm_up < 0:
        parser.error("--repeats is 1 or more, --seconds above 0, --warm-up 0 or more")
    return options


def choose_targets(options: argparse.Namespace) -> list[Target]:
    """The brokers to run.

    Raises: BrokerFailed when one that was asked for is not there.
    """
    extra = serve_words(options.serve_option)
    targets: list[Target] = []
    for word in options.target:
        kind, _, where = word.partition("=")
        if kind == "penstock":
            targets.append(penstock_target(where, extra))
        elif kind == "rabbitmq":
            found = rabbitmq_target(where)
            if found is None:
                raise BrokerFailed(RABBITMQ_MISSING)
            targets.append(found)
        elif kind == "lavinmq":
            found = lavinmq_target(where or options.lavinmq)
            if found is None:
                raise BrokerFailed(LAVINMQ_MISSING)
            targets.append(found)
        else:
            raise BrokerFailed(
                "--target is penstock, penstock=PYTHON, rabbitmq, rabbitmq=quorum, lavinmq or "
                f"lavinmq=PROGRAM, not {word!r}"
            )
    if not options.target:
        targets += default_targets(extra, options)
    targets += [rival_target(address) for address in options.rival]
    if options.tls:
        targets = [target for target in targets if target.kind in ("penstock", "rabbitmq")]
    targets = told_apart(targets)
    names = [target.name for target in targets]
    if len(set(names)) != len(names):
        raise BrokerFailed(f"two targets have the same name: {', '.join(names)}")
    return targets


def told_apart(targets: Sequence[Target]) -> list[Target]:
    """The same targets; Penstocks of one name are called after the Pythons they run on as well,
    and builds for one Python by their number in the command."""
    names = [target.name for target in targets]
    named = [
        replace(target, name=f"{target.name}-{target.python}")
        if target.python and names.count(target.name) > 1
        else target
        for target in targets
    ]
    names = [target.name for target in named]
    return [
        replace(target, name=f"{target.name}-{names[: index + 1].count(target.name)}")
        if target.kind == "penstock" and names.count(target.name) > 1
        else target
        for index, target in enumerate(named)
    ]


def serve_words(options: Sequence[str]) -> tuple[str, ...]:
    """More words for `penstock serve`: it keeps its messages, like the others, unless told."""
    words = tuple(options)
    return words if "--memory" in words or "--data" in words else (*words, "--data", "data")


def default_targets(extra: tuple[str, ...], options: argparse.Namespace) -> list[Target]:
    """Who runs unless told: this checkout, its compiled installation, RabbitMQ, LavinMQ, and
    RabbitMQ's quorum queues if there are rows for them.

    A smoke run takes one: the compiled installation of this interpreter, else the checkout.
    """
    try:
        installed = penstock_target(sys.executable, extra)
    except BrokerFailed:
        installed = None
    compiled = [installed] if installed is not None and installed.is_compiled else []
    if options.smoke:
        return compiled or [penstock_target("", extra)]
    found = [penstock_target("", extra), *compiled]
    rabbitmq = rabbitmq_target()
    if rabbitmq is None:
        print(RABBITMQ_MISSING, end="\n\n")
    else:
        found.append(rabbitmq)
        quorum = rabbitmq_target(QUORUM)
        if quorum is not None and set(options.rows) & set(PERSISTENT_ROWS):
            found.append(quorum)
    lavinmq = lavinmq_target(options.lavinmq)
    if lavinmq is None:
        print(LAVINMQ_MISSING, end="\n\n")
    else:
        found.append(lavinmq)
    return found


def with_certificates(targets: Sequence[Target], directory: Path) -> list[Target]:
    """The same targets with a port for TLS, all with one certificate, made in `directory`.

    Raises: BrokerFailed.
    """
    make_certificates(directory)
    return [replace(target, certificates=directory) for target in targets]


class Bench:
    """One benchmark: its options, its generator, what it found and what went wrong."""

    def __init__(self, options: argparse.Namespace, program: Path, targets: list[Target]) -> None:
        self.options = options
        self.program = program
        self.targets = targets
        self.faults: list[str] = []
        self.rows: dict[str, object] = {}

    def chosen(self) -> list[Workload]:
        """The throughput rows that were asked for."""
        return [workload for workload in WORKLOADS if workload.name in self.options.rows]

    def timed(self, workload: Workload, broker: Broker, rate: float = 0.0) -> Sample | None:
        """One timed run, at `rate` messages a second if that is not 0; None and a fault when it
        failed. Where messages are kept the disk is asked first how long a sync takes, and at a
        set rate how long a confirm takes at least."""
        warm_up, seconds = self.options.warm_up, self.options.seconds
        words = (*workload.options, "-w", str(warm_up), "-t", str(seconds))
        if rate > 0:
            words = (*words, "--rate", f"{rate:.0f}")
        try:
            disk = probe_sync(self.program, PROBE_MS, rate) if workload.is_persistent else Probe()
            sample = run_once(self.program, broker, words, warm_up + seconds)
            sample = replace(sample, sync_us=disk.sync_us, ideal_us=disk.ideal_us)
        except RunFailed as failure:
            self.faults.append(f"{workload.name}, {broker.name}: {failure}")
            return None
        if sample.lost or sample.wrong or sample.disorder:
            self.faults.append(
                f"{workload.name}, {broker.name}: lost {sample.lost}, wrong {sample.wrong}, "
                f"out of order {sample.disorder}"
            )
        return sample

    def throughput(self) -> None:
        """All timed rows: per repeat and row, every target once, in random order."""
        workloads = self.chosen()
        if not workloads:
            return
        chance = random.Random(self.options.seed)
        results: dict[str, dict[str, Samples]] = {
            workload.name: {target.name: [] for target in self.targets} for workload in workloads
        }
        brokers: dict[str, Broker] = {}
        try:
            for target in self.targets:
                if any(takes_part(target, workload) for workload in workloads):
                    brokers[target.name] = target.start()
            for repeat in range(self.options.repeats):
                print(f"repeat {repeat + 1} of {self.options.repeats}", file=sys.stderr)
                for workload in workloads:
                    taking_part = [one for one in self.targets if takes_part(one, workload)]
                    for target in chance.sample(taking_part, len(taking_part)):
                        broker = brokers[target.name]
                        if not broker.is_alive():
                            self.faults.append(f"{target.name} died before {workload.name}")
                            brokers[target.name] = broker = self.revive(target, broker)
                        rate = self.half_rate(workload, broker, results)
                        sample = None if rate < 0 else self.timed(workload, broker, rate)
                        results[workload.name][target.name].append(sample)
                        time.sleep(PAUSE_S)
        finally:
            for broker in brokers.values():
                broker.stop()
        for workload in workloads:
            lines, values = workload_report(workload, self.targets, results[workload.name])
            print("\n".join(lines), end="\n\n", flush=True)
            self.rows[workload.name] = values

    def half_rate(
        self, workload: Workload, broker: Broker, results: dict[str, dict[str, Samples]]
    ) -> float:
        """The rate of a row that has half of another's: of what `broker` reached there last, now
        if that row is not among the chosen ones; 0 for every other row, below 0 if it failed."""
        if not workload.half_of:
            return 0.0
        row = next(other for other in WORKLOADS if other.name == workload.half_of)
        before = results.get(row.name, {}).get(broker.name)
        sample = before[-1] if before else self.timed(row, broker)
        return sample.rate / 2 if sample is not None else -1.0

    def revive(self, target: Target, broker: Broker) -> Broker:
        """Start a broker that died again; its fault is already noted."""
        broker.stop()
        return target.start()

    def resources(self, scale: Scale) -> None:
        """The memory and overload rows that were asked for."""
        for row, question in RESOURCE_QUESTIONS.items():
            if row not in self.options.rows:
                continue
            results: dict[str, dict[str, float] | None] = {}
            targets = [
                one
                for one in self.targets
                if one.kind != LIMIT and (row == "drain" or not one.queue_type)
            ]
            for target in targets:
                try:
                    if row == "memory":
                        results[target.name] = measure_memory(self.program, target, scale)
                    elif row == "drain":
                        results[target.name] = measure_drain(self.program, target, scale)
                    else:
                        results[target.name] = measure_overload(
                            self.program, target, scale, self.options.depth_mb
                        )
                except (RunFailed, BrokerFailed) as failure:
                    results[target.name] = None
                    self.faults.append(f"{row}, {target.name}: {failure}")
            lines, values = resource_report(row, targets, results)
            print("\n".join([f"{row}: {question}", *lines]), end="\n\n", flush=True)
            self.rows[row] = values

    def smoke(self) -> None:
        """Fixed counts on every target: all messages arrive as sent, and the counts are hashed."""
        for target in self.targets:
            facts: list[dict[str, object]] = []
            broker = target.start()
            try:
                for workload in self.chosen():
                    if not takes_part(target, workload):
                        continue
                    words = (*workload.options, "-n", str(workload.count), "--stall", "60")
                    try:
                        sample = run_once(self.program, broker, words, 0.0)
                    except RunFailed as failure:
                        self.faults.append(f"{workload.name}, {target.name}: {failure}")
                        continue
                    facts.append(smoke_facts(workload, sample))
                    self.faults += smoke_faults(workload, sample)
            finally:
                broker.stop()
            print(f"{target.name}: {len(facts)} rows, counts {smoke_hash(facts)}")
            self.rows[target.name] = facts
        self.resources(SMOKE)


def full_scale(options: argparse.Namespace) -> Scale:
    """How much the resource rows of a full run do."""
    rss_mb_max = options.rss_mb_max or available_mb() / 2
    return Scale(
        FULL.messages_16b,
        FULL.messages_1k,
        FULL.queues,
        FULL.connections,
        options.overload_s,
        rss_mb_max,
        FULL.settle_s,
        FULL.backlog,
    )


def measure(bench: Bench, machine: dict[str, object]) -> None:
    """Run what was asked for, printing as it goes."""
    for target in bench.targets:
        print(f"{target.name}: {target.version}")
    print(", ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n", flush=True)
    if bench.options.smoke:
        bench.smoke()
        return
    if any(workload.is_persistent for workload in bench.chosen()):
        machine["data"] = file_system(tempfile.gettempdir())
        print(f"data: {machine['data']}; TMPDIR=... takes another place", end="\n\n")
    bench.throughput()
    bench.resources(full_scale(bench.options))


def main(words: Sequence[str]) -> int:
    """Run the benchmark; the exit code."""
    options = parse_arguments(words)
    machine = describe()
    try:
        targets = choose_targets(options)
        program = build_generator(options.tls)
    except (BrokerFailed, RunFailed) as failure:
        print(failure, file=sys.stderr)
        return 2
    try:
        if options.tls:
            targets = with_certificates(targets, program.parent / "certificates")
    except BrokerFailed as failure:
        forget_generator(program)
        print(failure, file=sys.stderr)
        return 2
    if not (options.no_limit or options.tls):
        targets.append(limit_target(limit_beside(program)))
    bench = Bench(options, program, targets)
    try:
        measure(bench, machine)
    except BrokerFailed as failure:
        bench.faults.append(str(failure))
    finally:
        forget_generator(program)
        forget_cache()
    if options.out:
        versions = {target.name: target.version for target in targets}
        settings = {key: value for key, value in vars(options).items() if key != "out"}
        everything = {
            "machine": machine,
            "versions": versions,
            "settings": settings,
            "rows": bench.rows,
            "faults": bench.faults,
        }
        options.out.write_text(json.dumps(everything, indent=1) + "\n", encoding="utf-8")
        print(f"written: {options.out}")
    for fault in bench.faults:
        print(f"FAULT {fault}", file=sys.stderr)
    return 1 if bench.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
