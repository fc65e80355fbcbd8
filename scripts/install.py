"""Installs Penstock and what it needs into a virtual environment; what does not wait for each other
is done side by side, and every stage says how long it took.

    scripts/install.py ENVIRONMENT LOCK EXTRAS [--editable | --wheel FOLDER]

EXTRAS: of pyproject.toml, separated by commas. LOCK: exact versions of everything. --editable:
plain Python that follows every edit of src/; otherwise a wheel, compiled where that is possible.
--wheel: only make the wheel, and leave it in FOLDER.

    packages   all that is needed but PySpark              \\
    spark      its source archive, made into a wheel once   }  side by side
    compile    a wheel of Penstock (native_build.py)       /

A stage that would do nothing new is skipped: packages, when neither the lock nor the wishes have
changed; the wheel of PySpark, when it lies in .wheels/; compiling, when no compiled module changed.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
import venv
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

WHEELS: Final = Path(".wheels")
BUILD_ENVIRONMENT: Final = Path(".venv-build")
OLD_NAME: Final = "penstock"
"""What the distribution was called before it was penstock-mq."""
LINES_SHOWN: Final = 30
SAID: Final = "penstock: "
BEGAN: Final = time.monotonic()


class StageFailedError(Exception):
    """A command of a stage failed; the text says which, and what it printed last."""


def say(text: str) -> None:
    """One line with the seconds since the start."""
    print(f"{SAID}{time.monotonic() - BEGAN:5.0f} s  {text}", flush=True)


def run(command: Sequence[str]) -> None:
    """Run quietly, but for lines that begin with SAID, which are said as they come.

    Raises: StageFailedError.
    """
    last: deque[str] = deque(maxlen=LINES_SHOWN)
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None, "asked for above"
        for line in process.stdout:
            if line.startswith(SAID):
                say(line.removeprefix(SAID).strip())
            last.append(line)
    if process.returncode != 0:
        raise StageFailedError(f"{' '.join(command)}\n{''.join(last)}")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be installed where. requirements: of Penstock and the extras, PySpark left out."""

    environment: Path
    lock: Path
    requirements: tuple[str, ...]
    spark: str
    build_requirements: tuple[str, ...]
    is_editable: bool


def read_wishes(environment: Path, lock: Path, extras: Sequence[str], editable: bool) -> Wishes:
    """From pyproject.toml and the lock. Raises: StageFailedError for an unknown extra."""
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    known = project["project"]["optional-dependencies"]
    unknown = [name for name in extras if name not in known]
    if unknown:
        raise StageFailedError(f"no such extra: {', '.join(unknown)}; extras: {', '.join(known)}")
    wanted = [*project["project"]["dependencies"], *(one for name in extras for one in known[name])]
    build = tuple(project["build-system"]["requires"])
    spark = [one for one in wanted if one.startswith("pyspark==")]
    if editable:
        # What an editable installation is made with; the compiler of the wheel is not needed.
        wanted += [one for one in build if one.startswith("setuptools")]
    return Wishes(
        environment,
        lock,
        tuple(one for one in wanted if one not in spark),
        spark[0] if spark else "",
        build,
        editable,
    )


class Installation:
    """The stages. Two of them never install into one environment at the same moment."""

    def __init__(self, wishes: Wishes) -> None:
        self.wishes = wishes
        self.turn = threading.Lock()

    def do(self) -> None:
        """Everything. Raises: StageFailedError, or what a stage raises."""
        wishes = self.wishes
        if not python_of(wishes.environment).exists():
            make_environment(wishes.environment)
        if installed_version(wishes.environment, OLD_NAME):
            # Compiled modules that the new name no longer has would hide the plain ones.
            self.pip("uninstall", "--yes", OLD_NAME)
        stages: list[Callable[[], None]] = [self.packages]
        if wishes.spark:
            stages.append(self.spark)
        if not wishes.is_editable:
            stages.append(self.compiled)
        with ThreadPoolExecutor(len(stages)) as pool:
            futures = [pool.submit(stage) for stage in stages]
            for future in futures:
                future.result()
        if wishes.is_editable:
            self.pip("install", "--no-deps", "--no-build-isolation", "--editable", ".")
            say("installed Penstock from src/, plain Python")

    def pip(self, *words: str) -> None:
        """One pip of the environment at a time."""
        with self.turn:
            run(pip_of(self.wishes.environment, *words))

    def packages(self) -> None:
        """Everything but PySpark and Penstock itself."""
        wishes = self.wishes
        stamp = wishes.environment / ".packages"
        wanted = "\n".join((wishes.lock.read_text(encoding="utf-8"), *wishes.requirements))
        key = hashlib.sha256(wanted.encode()).hexdigest()
        if stamp.is_file() and stamp.read_text() == key:
            return
        began = time.monotonic()
        self.pip("install", "--no-compile", "--constraint", str(wishes.lock), *wishes.requirements)
        stamp.write_text(key)
        say(f"packages are installed ({time.monotonic() - began:.0f} s)")

    def spark(self) -> None:
        """PySpark, by way of a wheel that other environments take from .wheels/ as well."""
        version = self.wishes.spark.partition("==")[2]
        found = installed_version(self.wishes.environment, "pyspark")
        if found == version:
            return
        if not list(WHEELS.glob(f"pyspark-{version}-*.whl")):
            began = time.monotonic()
            say(f"PySpark {version}: 456 MB to fetch, once")
            # Made aside and moved: an interrupted run must not leave half a wheel under its name.
            aside = WHEELS / "unfinished"
            shutil.rmtree(aside, ignore_errors=True)
            words = ("--no-deps", "--wheel-dir", str(aside), self.wishes.spark)
            run(pip_of(self.wishes.environment, "wheel", *STORED, *words))
            for wheel in aside.glob("pyspark-*.whl"):
                wheel.rename(WHEELS / wheel.name)
            shutil.rmtree(aside)
            say(f"PySpark is a wheel in {WHEELS}/ ({time.monotonic() - began:.0f} s)")
        began = time.monotonic()
        places = ("--find-links", str(WHEELS), "--constraint", str(self.wishes.lock))
        self.pip("install", "--no-compile", *places, self.wishes.spark)
        say(f"PySpark is installed ({time.monotonic() - began:.0f} s)")

    def compiled(self) -> None:
        """A wheel of Penstock, and that installed."""
        # Not compressed: it is unpacked in the next moment.
        wheel = self.wheel(Path("build", "wheel"), {"--build-option": ["--compression=stored"]})
        words = ("--no-compile", "--no-deps", "--no-index", "--force-reinstall")
        self.pip("install", *words, str(wheel))
        say(f"installed {wheel.name}")

    def wheel(self, folder: Path, settings: dict[str, list[str]]) -> Path:
        """Make it in `folder`, which is emptied first. settings: of the build, see setuptools."""
        if not python_of(self.wishes.environment).exists():
            make_environment(self.wishes.environment)
        stamp = BUILD_ENVIRONMENT / ".packages"
        # Of another Python it would make wheels for that one.
        wanted = "\n".join((sys.version, *self.wishes.build_requirements))
        if not stamp.is_file() or stamp.read_text() != wanted:
            # Without a pip of its own, which takes longer to make than all the rest.
            venv.create(BUILD_ENVIRONMENT, clear=True, with_pip=False, symlinks=True)
            there = ("--python", str(python_of(BUILD_ENVIRONMENT)))
            run(pip_of(self.wishes.environment, *there, "install", *self.wishes.build_requirements))
            stamp.write_text(wanted)
        forget_deleted()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        build = f"from setuptools.build_meta import *; build_wheel({str(folder)!r}, {settings})"
        run((str(python_of(BUILD_ENVIRONMENT)), "-c", build))
        return next(folder.glob("penstock_mq-*.whl"))


# The archives in PySpark are compressed already: packing them again would only take time.
STORED: Final = ("--config-settings", "--build-option=--compression=stored")


def forget_deleted() -> None:
    """What setuptools has left of its last build and would pack again: modules that were deleted
    since, and compiled ones, which are put there anew."""
    for place in Path("build").glob("lib*"):
        for left in place.rglob("*.*"):
            is_gone = left.suffix == ".py" and not (Path("src") / left.relative_to(place)).exists()
            if is_gone or left.suffix == ".so":
                left.unlink()


def python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def pip_of(environment: Path, *words: str) -> tuple[str, ...]:
    return (str(python_of(environment)), "-m", "pip", "--quiet", *words)


def make_environment(folder: Path) -> None:
    """An empty one of the interpreter that runs this."""
    began = time.monotonic()
    venv.create(folder, clear=True, with_pip=True, symlinks=True)
    version = ".".join(str(part) for part in sys.version_info[:3])
    say(f"made {folder} with Python {version} ({time.monotonic() - began:.0f} s)")


def installed_version(environment: Path, name: str) -> str:
    """Of a package, "" if it is not there."""
    for found in environment.glob(f"lib/python*/site-packages/{name}-*.dist-info"):
        return found.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environment", type=Path)
    parser.add_argument("lock", type=Path)
    parser.add_argument("extras")
    parser.add_argument("--editable", action="store_true")
    parser.add_argument("--wheel", type=Path)
    options = parser.parse_args()
    extras = [name for name in options.extras.split(",") if name]
    os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    WHEELS.mkdir(exist_ok=True)
    try:
        wishes = read_wishes(options.environment, options.lock, extras, options.editable)
        if options.wheel is not None:
            say(f"made {Installation(wishes).wheel(options.wheel, {})}")
            return 0
        Installation(wishes).do()
    except StageFailedError as error:
        print(f"penstock: could not be installed: {error}", file=sys.stderr)
        return 1
    say(f"{options.environment} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
