"""Fetches suites and what they need, and keeps them between runs: nothing of theirs is in here."""

import errno
import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Final

from tests.conformance.suite_table import Commit, Suite

# One archive or commit, or all packages of a suite. pip itself would try six times, for minutes.
DOWNLOAD_S_MAX: Final = 60
PATIENCE: Final = ("--retries", "1", "--timeout", "10")


class Unreachable(Exception):
    """The package index or the repository did not deliver; the text is what pip or git said."""


class Shelf:
    """Archives, commits and packages, kept between runs in a folder that runs side by side may
    share.

    Once the package index or a host of repositories did not deliver, nothing more is asked of it:
    what is not on the shelf stays out of reach for this run. Threads may share a shelf, and fetch
    one after the other.
    """

    def __init__(self) -> None:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.folder = Path(base) / "penstock-conformance"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._refusals: dict[str, str] = {}
        self._fetching = Lock()

    def fetch(self, suite: Suite) -> tuple[Path, tuple[str, ...]]:
        """The folder with the tests, and those of the packages they need. Raises: Unreachable."""
        with self._fetching:
            return self._sources(suite), self._packages(suite)

    def _sources(self, suite: Suite) -> Path:
        """The unpacked archive of the installed version, or the commit. Raises: Unreachable."""
        if suite.commit is not None:
            return self._commit(suite.commit)
        number = suite.version
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

    def _commit(self, commit: Commit) -> Path:
        """The files of a commit, which git checks by its hash. Raises: Unreachable."""
        target = self.folder / f"{Path(commit.url).name}-{commit.sha}"
        if not target.exists():
            with staging(target) as folder:
                git = ("git", "-C", str(folder), "-c", "init.defaultBranch=main")
                self._ask("git", *git, "init", "--quiet", ".")
                self._ask("git", *git, "fetch", "--quiet", "--depth=1", commit.url, commit.sha)
                self._ask("git", *git, "checkout", "--quiet", "FETCH_HEAD")
        return target

    def _packages(self, suite: Suite) -> tuple[str, ...]:
        """A folder with the packages only this suite needs, if any. Raises: Unreachable."""
        if not suite.packages:
            return ()
        digest = hashlib.sha256(" ".join(suite.packages).encode()).hexdigest()[:12]
        target = self.folder / f"packages-{digest}"
        if not target.exists():
            with staging(target) as folder:
                self._pip("install", "--no-deps", "--target", str(folder), *suite.packages)
        return (str(target),)

    def _pip(self, verb: str, *arguments: str) -> None:
        """Run pip of this interpreter. Raises: Unreachable with the last line it said."""
        quiet = ("--quiet", "--disable-pip-version-check")
        self._ask("pip", sys.executable, "-m", "pip", verb, *PATIENCE, *quiet, *arguments)

    def _ask(self, who: str, *command: str) -> None:
        """Run a command of `who`, unless it has refused before. Raises: Unreachable."""
        if who not in self._refusals:
            try:
                done = subprocess.run(
                    command,
                    capture_output=True,
                    text=True,
                    timeout=DOWNLOAD_S_MAX,
                    env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
                )
                if done.returncode:
                    said = (done.stderr.splitlines() or ["it said nothing"])[-1]
                    self._refusals[who] = f"{who}: {said}"
            except subprocess.TimeoutExpired:
                self._refusals[who] = f"{who}: no answer within {DOWNLOAD_S_MAX} s"
        if who in self._refusals:
            raise Unreachable(self._refusals[who])


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
