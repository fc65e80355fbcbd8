"""Runs the client projects' own test suites, taken from their source distributions, on a broker.

Nothing of theirs is kept here: the archive of the very version that is installed is downloaded
from the package index into a cache directory, unpacked there, and run by pytest in a subprocess.
Only the environment and a plugin (`suite_plugin`) tell it where the broker is. Tests that are off
stand in `switched_off.toml`, each with its reason.

By hand: `python -m tests.conformance.suites <suite> <amqp url>` prints what does not pass.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from tests.conformance.docker_stand_in import docker_stand_in
from tests.conformance.live import Broker, from_url
from tests.conformance.suite_plugin import matches

HERE: Final = Path(__file__).parent
OFF_FILE: Final = HERE / "switched_off.toml"
# One archive, or all plugins together. pip itself would try six times, for minutes.
DOWNLOAD_S_MAX: Final = 60
PATIENCE: Final = ("--retries", "1", "--timeout", "10")
TEST_S_MAX: Final = 20
# What the suites need beyond the clients. Kept out of the environment of our own tests: one of
# them is a pytest plugin that changes how every test runs.
PLUGINS: Final = (
    "aiomisc==18.0.37",
    "aiomisc-pytest==2.0.0",
    "aiothreads",
    "colorlog>=6,<7",
    "logging-journald",
    "shortuuid==1.0.13",
)


class Unreachable(Exception):
    """The package index did not deliver; the text says what pip said."""


@dataclass(frozen=True, slots=True)
class Suite:
    """One project's tests: distribution, what to run inside its archive, and what it needs."""

    name: str
    distribution: str
    targets: tuple[str, ...]
    run_s_max: int = 60
    wants_plugins: bool = False
    wants_docker: bool = False


RECONNECTING: Final = "tests/test_amqp_robust_proxy.py"
SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite("py-amqp", "amqp", ("t/integration/test_rmq.py",)),
        Suite("kombu", "kombu", ("t/integration/test_py_amqp.py",)),
        Suite("aiormq", "aiormq", ("tests",), 280, True),
        Suite("aio-pika", "aio-pika", ("tests", f"--ignore={RECONNECTING}"), 280, True, True),
        # A suite of its own, because it mostly waits: for cut and stuck connections.
        Suite("aio-pika-reconnecting", "aio-pika", (RECONNECTING,), 280, True, True),
    )
}


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


class Shelf:
    """The archives and plugins, kept between runs in a folder that runs side by side may share.

    Once the package index did not deliver, nothing more is asked of it: what is not on the shelf
    stays out of reach for this run.
    """

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.folder = Path(base) / "penstock-conformance"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refusal = ""

    def sources(self, suite: Suite) -> Path:
        """The unpacked archive of the installed version. Raises: Unreachable."""
        number = version(suite.distribution)
        target = self.folder / f"{suite.distribution}-{number}"
        if not target.exists():
            with staging(target) as folder, tempfile.TemporaryDirectory() as archives:
                only = ("--no-deps", "--no-binary", suite.distribution, "--dest", archives)
                self._pip("download", *only, f"{suite.distribution}=={number}")
                (archive,) = Path(archives).iterdir()
                with tarfile.open(archive) as packed:
                    packed.extractall(folder, filter="data")
        (root,) = target.iterdir()
        return root

    def plugins(self) -> Path:
        """A folder with the packages only the suites need. Raises: Unreachable."""
        digest = hashlib.sha256(" ".join(PLUGINS).encode()).hexdigest()[:12]
        target = self.folder / f"plugins-{digest}"
        if not target.exists():
            with staging(target) as folder:
                self._pip("install", "--no-deps", "--target", str(folder), *PLUGINS)
        return target

    def _pip(self, verb: str, *arguments: str) -> None:
        """Run pip of this interpreter. Raises: Unreachable with the last line it said."""
        if not self._refusal:
            quiet = ("--quiet", "--disable-pip-version-check")
            command = [sys.executable, "-m", "pip", verb, *PATIENCE, *quiet, *arguments]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=DOWNLOAD_S_MAX
                )
                if done.returncode:
                    self._refusal = (done.stderr.splitlines() or ["it said nothing"])[-1]
            except subprocess.TimeoutExpired:
                self._refusal = f"no answer within {DOWNLOAD_S_MAX} s"
        if self._refusal:
            raise Unreachable(self._refusal)


@contextmanager
def staging(target: Path) -> Iterator[Path]:
    """A fresh folder that becomes `target` once the block succeeded: no half-filled shelf.

    If another run was first, its folder stays.
    """
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "made"
        made.mkdir()
        yield made
        try:
            made.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


class Prepared(NamedTuple):
    """A suite ready to run: the folder with its tests, and those of the packages it needs."""

    suite: Suite
    root: Path
    extra: tuple[str, ...]


def prepare(suite: Suite, shelf: Shelf) -> Prepared:
    """Get what a suite needs. Raises: Unreachable without the package index."""
    extra = (str(shelf.plugins()),) if suite.wants_plugins else ()
    return Prepared(suite, shelf.sources(suite), extra)


def run(prepared: Prepared, broker: Broker, folder: Path) -> list[Result]:
    """Run a suite against a broker; its output goes to `folder`.

    Raises: AssertionError if pytest itself did not work or took longer than the suite may.
    """
    suite, root, extra = prepared
    report = folder / f"{suite.name}.jsonl"
    report.write_text("")
    skip = [off.test for off in switched_off(suite.name) if not off.runs]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["-p", "suite_plugin", *suite.targets]
    output = folder / f"{suite.name}.txt"
    stand_in = docker_stand_in(broker) if suite.wants_docker else nullcontext("")
    with stand_in as docker_host, output.open("wb") as out:
        environment = {
            **os.environ,
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
            "PENSTOCK_SUITE_TEST_S_MAX": str(TEST_S_MAX),
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
    lines = [f"{suite.name} {version(suite.distribution)}: {counts}"]
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
