"""Runs other projects' own test suites on a broker: those of clients, and of what builds on them.

Nothing of theirs is kept here: what `suite_table` names is fetched into a cache directory
(`suite_shelf`), and run unchanged by pytest in a subprocess. Only the environment and a plugin
(`suite_plugin`) tell it where the broker is. Tests that are off stand in `switched_off.toml`, each
with its reason.

By hand: `python -m tests.conformance.suites <suite> <amqp url>` prints what does not pass.
"""

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance.docker_stand_in import docker_stand_in
from tests.conformance.live import Broker, from_url
from tests.conformance.suite_plugin import matches
from tests.conformance.suite_shelf import Shelf
from tests.conformance.suite_table import SUITES, Suite
from tests.patience import Lateness

HERE: Final = Path(__file__).parent
OFF_FILE: Final = HERE / "switched_off.toml"
RUNS_MAX: Final = 3
AGAIN_S_MAX: Final = 180
# A run in which its process stood still for longer, or waited for a processor for a larger share
# of the time, was disturbed.
LATE_S_MAX: Final = 0.3
WAITING_SHARE_MAX: Final = 0.2


class Disturbed(Exception):
    """Tests failed, and each of their runs was disturbed; which ones."""


class Off(NamedTuple):
    """A test that is off. `runs`: run it all the same, and complain once it passes."""

    test: str
    reason: str
    runs: bool


class Result(NamedTuple):
    """One test of a suite: "passed", "failed", "skipped" or "not run"."""

    test: str
    outcome: str
    text: str


def switched_off(suite: str) -> list[Off]:
    """The tests of `suite` that are off, from the list."""
    table = tomllib.loads(OFF_FILE.read_text())
    return [
        Off(test, entry["reason"], entry.get("runs", True))
        for entry in table.get(suite, [])
        for test in entry["tests"]
    ]


class Run(NamedTuple):
    """How the tests of one run ended, and whether the machine let them work."""

    results: list[Result]
    is_disturbed: bool


class Prepared(NamedTuple):
    """A suite ready to run: the folder with its tests, and those of the packages it needs."""

    suite: Suite
    root: Path
    extra: tuple[str, ...]


def prepare(suite: Suite, shelf: Shelf) -> Prepared:
    """Get what a suite needs. Raises: Unreachable without the package index."""
    return Prepared(suite, *shelf.fetch(suite))


def run(prepared: Prepared, broker: Broker, folder: Path, only: tuple[str, ...] = ()) -> Run:
    """Run a suite, or `only` these of its tests, against a broker; its output goes to `folder`.

    Raises: AssertionError if pytest itself did not work or took longer than the suite may;
    Disturbed if it did so because the machine was busy.
    """
    suite, root, extra = prepared
    report = folder / f"{suite.name}.jsonl"
    report.write_text("")
    skip = [off.test for off in switched_off(suite.name) if not off.runs]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "suite_plugin", *suite.options, *(only or suite.targets)]
    output = folder / f"{suite.name}.txt"
    stand_in = docker_stand_in(broker) if suite.wants_docker else nullcontext("")
    with stand_in as docker_host, output.open("wb") as out:
        more = {
            name: value.format(url=broker.url, folder=folder) for name, value in suite.environment
        }
        environment = {
            **os.environ,
            **more,
            # Some start the programs of what is installed here.
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
            "DOCKER_HOST": docker_host,
            "PYTHONPATH": os.pathsep.join((str(HERE), *extra)),
            # Ours are debugged by asyncio, which slows the clients' own suites down by half.
            "PYTHONASYNCIODEBUG": "",
            "PYTHONDONTWRITEBYTECODE": "1",
            "RABBITMQ_HOST": broker.host,
            "RABBITMQ_5672_TCP": str(broker.port),
            "PENSTOCK_SUITE_URL": broker.url,
            "PENSTOCK_SUITE_REPORT": str(report),
            "PENSTOCK_SUITE_SKIP": json.dumps(skip),
            "PENSTOCK_SUITE_TEST_S_MAX": str(suite.test_s_max),
            "PENSTOCK_SUITE_USUAL_PORT": "1" if suite.wants_usual_port else "",
        }
        process = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        with process, Lateness(process.pid) as lateness:
            try:
                code = process.wait(suite.run_s_max)
            except subprocess.TimeoutExpired:
                process.kill()
                code = None
    is_disturbed = lateness.worst_s > LATE_S_MAX or lateness.waiting_share > WAITING_SHARE_MAX
    ended = f"longer than {suite.run_s_max} s" if code is None else f"exit status {code}"
    # What runs into a time-out may take pytest with it.
    if code not in (0, 1) and is_disturbed:
        raise Disturbed(f"all of it: {ended}")
    said = output.read_text(errors="replace")[-3000:]
    assert code in (0, 1), f"{suite.name}: {ended}\n{said}"
    return Run(merged(report.read_text().splitlines()), is_disturbed)


def judged(
    prepared: Prepared, fresh: Callable[[], AbstractContextManager[Broker]], folder: Path
) -> list[Result]:
    """The results of a suite; every run of it has a `fresh` broker. Many tests wait for so and so
    long, and are wrong when the machine is busy: then those that failed run again, alone.

    Raises: AssertionError, Disturbed."""
    off = switched_off(prepared.suite.name)
    results: dict[str, Result] = {}
    only: tuple[str, ...] = ()
    for _ in range(RUNS_MAX):
        with fresh() as broker:
            found, is_disturbed = run(prepared, broker, folder, only)
        results.update({one.test: one for one in found})
        only = tuple(one.test for one in unlisted_failures(list(results.values()), off))
        if not only or not is_disturbed:
            return list(results.values())
        prepared = prepared._replace(suite=replace(prepared.suite, run_s_max=AGAIN_S_MAX))
    raise Disturbed(", ".join(only))


def merged(lines: list[str]) -> list[Result]:
    """One result for each test: the worst of its phases."""
    results: dict[str, Result] = {}
    for line in lines:
        read = json.loads(line)
        result = Result(read["test"], read["outcome"], read["text"])
        before = results.get(result.test)
        if before is None or before.outcome != "failed":
            results[result.test] = result
    return list(results.values())


def is_listed(result: Result, off: list[Off]) -> bool:
    """Whether the test is off."""
    return any(matches(result.test, entry.test) for entry in off)


def unlisted_failures(results: list[Result], off: list[Off]) -> list[Result]:
    """What failed and is not on the list."""
    return [one for one in results if one.outcome == "failed" and not is_listed(one, off)]


def complaints(results: list[Result], off: list[Off]) -> list[str]:
    """What must not be: failures that are not on the list, and entries that have become stale."""
    found = [f"FAILED {one.test}\n{one.text}" for one in unlisted_failures(results, off)]
    for result in results:
        if result.outcome == "passed" and is_listed(result, off):
            found.append(f"STALE {result.test} passes: take it off the list")
    for entry in off:
        if not any(matches(result.test, entry.test) for result in results):
            found.append(f"STALE {entry.test}: there is no such test")
    return found


def summary(suite: Suite, results: list[Result], off: list[Off]) -> list[str]:
    """How many tests ended how, and for each reason how many were off."""
    ended = Counter(result.outcome for result in results)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(ended.items()))
    lines = [f"{suite.name} {suite.version}: {counts}"]
    why: Counter[str] = Counter()
    for result in results:
        reasons = [entry.reason for entry in off if matches(result.test, entry.test)]
        why.update(reasons[:1])
    lines += [f"  {count} off: {reason}" for reason, count in why.items()]
    return lines


def main() -> None:
    """Run one suite against a broker named on the command line."""
    suite, broker = SUITES[sys.argv[1]], from_url(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        results = run(prepare(suite, Shelf()), broker, Path(folder)).results
    off = switched_off(suite.name)
    print("\n".join([*complaints(results, off), *summary(suite, results, off)]))


if __name__ == "__main__":
    main()
