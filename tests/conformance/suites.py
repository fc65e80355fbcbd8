"""Runs other projects' own test suites on a broker: those of clients, and of what builds on them.

Nothing of theirs is kept here: what `suite_table` names is fetched into a cache directory
(`suite_shelf`), and run unchanged by pytest in a subprocess. Only the environment and a plugin
(`suite_plugin`) tell it where the broker is. Tests that are off stand in `switched_off.toml`, each
with its reason.

By hand: `python -m tests.conformance.suites <suite> <amqp url>` prints what does not pass.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance.docker_stand_in import docker_stand_in
from tests.conformance.live import Broker, from_url
from tests.conformance.suite_plugin import matches
from tests.conformance.suite_shelf import Shelf
from tests.conformance.suite_table import SUITES, Suite

HERE: Final = Path(__file__).parent
OFF_FILE: Final = HERE / "switched_off.toml"


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


class Prepared(NamedTuple):
    """A suite ready to run: the folder with its tests, and those of the packages it needs."""

    suite: Suite
    root: Path
    extra: tuple[str, ...]


def prepare(suite: Suite, shelf: Shelf) -> Prepared:
    """Get what a suite needs. Raises: Unreachable without the package index."""
    return Prepared(suite, *shelf.fetch(suite))


def run(prepared: Prepared, broker: Broker, folder: Path) -> list[Result]:
    """Run a suite against a broker; its output goes to `folder`.

    Raises: AssertionError if pytest itself did not work or took longer than the suite may.
    """
    suite, root, extra = prepared
    report = folder / f"{suite.name}.jsonl"
    report.write_text("")
    skip = [off.test for off in switched_off(suite.name) if not off.runs]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "suite_plugin", *suite.options, *suite.targets]
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
        try:
            done = subprocess.run(
                command,
                cwd=root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=suite.run_s_max,
            )
            ended = f"exit status {done.returncode}"
            usable = done.returncode in (0, 1)
        except subprocess.TimeoutExpired:
            ended, usable = f"longer than {suite.run_s_max} s", False
    assert usable, f"{suite.name}: {ended}\n{output.read_text(errors='replace')[-3000:]}"
    return merged(report.read_text().splitlines())


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


def complaints(results: list[Result], off: list[Off]) -> list[str]:
    """What must not be: failures that are not on the list, and entries that have become stale."""
    found = []
    for result in results:
        listed = any(matches(result.test, entry.test) for entry in off)
        if result.outcome == "failed" and not listed:
            found.append(f"FAILED {result.test}\n{result.text}")
        if result.outcome == "passed" and listed:
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
        results = run(prepare(suite, Shelf()), broker, Path(folder))
    off = switched_off(suite.name)
    print("\n".join([*complaints(results, off), *summary(suite, results, off)]))


if __name__ == "__main__":
    main()
