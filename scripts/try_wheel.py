"""Installs a wheel into an empty environment without a compiler, has it serve a message, and opens
its first page: a stranger's path, with the time that each step takes.

    scripts/try_wheel.py FOLDER LOCK        FOLDER: with one penstock_mq-*.whl; LOCK: exact versions

What it needs comes from the package index, as wheels only. Exit status 1 when something fails.
"""

import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Final

SECONDS: Final = 600.0
QUIET: Final = ("--quiet", "--disable-pip-version-check")


class Trial:
    """An environment in `folder`. PATH leads to it alone, so nothing else is found."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True, symlinks=True)
        self.bin = folder / "bin"
        self.environment = {"PATH": str(self.bin), "HOME": str(folder), "LANG": "C.UTF-8"}
        # Where an index of one's own is configured, it counts here, too.
        known = ("PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_CERT", "SSL_CERT_FILE", "XDG_CONFIG_HOME")
        self.environment |= {key: os.environ[key] for key in known if key in os.environ}

    def run(self, *words: str) -> str:
        """What `words` print. Raises: CalledProcessError."""
        done = subprocess.run(
            [str(self.bin / words[0]), *words[1:]],
            env=self.environment,
            cwd=self.bin.parent,
            stdout=subprocess.PIPE,
            text=True,
            timeout=SECONDS,
            check=True,
        )
        return done.stdout


def main() -> int:
    (wheel,) = Path(sys.argv[1]).resolve().glob("penstock_mq-*.whl")
    lock = Path(sys.argv[2]).resolve()
    here = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory(prefix="penstock-wheel-") as folder:
        trial = Trial(Path(folder))
        where = ("--only-binary", ":all:", "--constraint", str(lock))
        began_s = time.monotonic()
        wanted = f"{wheel}[management]"
        trial.run("python", "-m", "pip", "install", *QUIET, *where, wanted, "pika")
        took_s = time.monotonic() - began_s
        trial.run("python", "-m", "pip", "check")
        said = trial.run("penstock", "version").strip()
        assert said.endswith("compiled"), f"the wheel is not compiled: {said}"
        assert trial.run("penstock", "--version").startswith("penstock 0."), "a version"
        assert trial.run("penstock", "-h").startswith("Usage: penstock"), "help"
        served = trial.run("python", str(here / "serve_one.py")).strip()
        print(f"{wheel.name}: installed in {took_s:.1f} s; {served}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
