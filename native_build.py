"""Compiles the modules of compile_list.txt: to C by mypyc, to one library by the C compiler.

mypyc writes one C file for each module. They are compiled side by side, one compiler for each
processor, and what is compiled once is kept below build/native:

    sets/KEY/     the finished files of one state of the listed modules and all they import
    units/KEY.o   one compiled C file; KEY covers its text, the headers, the options, the compiler

A set that is kept makes mypyc and the compiler unnecessary. After a change in one module mypyc
works again, and of the C files those are compiled that came out different. Two things would make
nearly all of them different each time, so they are taken out of the text first:

- Constants. mypyc numbers the constants of all modules in one array, so one more text in one module
  moves the numbers in the others. Here every C file has an array of its own, filled from the large
  one when the library is loaded (`own_constants`).
- The common header. It declares every function and class of every module. A C file depends on the
  declarations that it names, directly or through others, and only they are part of its key
  (`Declarations`).

Needs Linux or macOS, a C compiler and Python's headers. Nothing here is used when Penstock runs.
"""

import hashlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

GROUP: Final = "penstock"
LIBRARY: Final = f"{GROUP}__mypyc"
KEPT: Final = Path("build", "native")
SETS_KEPT: Final = 3
UNITS_KEPT: Final = 1_000
"""About five states of all modules, 60 MB; the ones unused for longest go first."""
UNITS_WORTH_A_HEADER: Final = 8
# Of the packages that Penstock uses when it runs the build environment holds msgspec and librt;
# what comes from others may be anything there.
MYPY_OPTIONS: Final = (
    "--ignore-missing-imports",
    "--allow-subclassing-any",
    "--no-warn-unused-ignores",
    "--no-warn-return-any",
)
OPTIONS: Final = (
    "-O2",
    "-g0",
    "-fPIC",
    # Calls between modules need no detour through the table of the dynamic linker.
    "-fvisibility=hidden",
    "-fno-semantic-interposition",
    "-w",
)
SUFFIX: Final[str] = sysconfig.get_config_var("EXT_SUFFIX")

_IMPORT = re.compile(r"^\s*from\s+(penstock[\w.]*)\s+import\s+(\([^)]*\)|[^\n]*)", re.M)
_CONSTANT = re.compile(r"CPyStatics\[(\d+)\]")
_CONSTANTS_DECLARED = re.compile(r"extern PyObject \*CPyStatics\[\d+\];")
_CONSTANTS_FILLED = re.compile(r"if \(CPyStatics_Initialize\(CPyStatics,[^{]*\{\s*return -1;\s*\}")
_OWN_NAME = re.compile(r"\b(?:CPy\w+?_\w+|penstock___\w+|tuple_T\w+|\w+___\w+)\b")


class CannotCompileError(Exception):
    """The modules cannot be compiled here; the text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One C file to compile. directories: where its headers lie; key: see the top of this file."""

    path: Path
    directories: tuple[str, ...]
    key: str


def module_name(source: Path) -> str:
    """`penstock.flow.gate` of src/penstock/flow/gate.py."""
    return ".".join(source.with_suffix("").parts[1:])


def finished_names(sources: Iterable[Path]) -> list[str]:
    """The files of a set, relative to where packages are installed."""
    modules = (module_name(source).replace(".", "/") for source in sources)
    return [f"{LIBRARY}{SUFFIX}", *(f"{module}{SUFFIX}" for module in modules)]


def build(sources: Sequence[Path], root: Path, say: Callable[[str], None]) -> Path:
    """The directory of the finished files of `sources` (below `root`/src), made if not kept.

    say: is told, in a line each, what is done and how long it took.
    Raises: CannotCompileError.
    """
    tools = tool_versions()
    key = set_key(sources, root / "src", tools)
    done = root / KEPT / "sets" / key
    if done.is_dir():
        os.utime(done)
        say(f"{len(sources)} modules are compiled already")
        return done
    began = time.monotonic()
    made = translate(sources, root / "build" / "c")
    units = prepared(made, tools)
    say(f"mypyc translated {len(sources)} modules to C in {time.monotonic() - began:.0f} s")
    began = time.monotonic()
    objects, compiled = compile_units(units, root / KEPT / "units")
    unfinished = done.with_suffix(f".{os.getpid()}")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    link(objects, unfinished / f"{LIBRARY}{SUFFIX}")
    modules = [module_name(source) for source in sources]
    make_entrances(modules, unfinished, root / KEPT / "units", tools)
    unfinished.rename(done)
    say(
        f"compiled {compiled} of {len(units)} C files on {processors()} processors in "
        f"{time.monotonic() - began:.0f} s"
    )
    forget_old(done.parent, SETS_KEPT)
    forget_old(root / KEPT / "units", UNITS_KEPT)
    return done


# -- keys ------------------------------------------------------------------------------------------


def tool_versions() -> str:
    """What turns the same source into the same machine code. Raises: CannotCompileError."""
    try:
        said = subprocess.run(
            [*compiler(), "--version"], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        raise CannotCompileError(f"no C compiler: {error}") from error
    header = Path(sysconfig.get_path("include"), "Python.h")
    if not header.is_file():
        raise CannotCompileError(f"Python's C headers are missing: {header}")
    try:
        tools = (sys.version, said, *(f"{name} {version(name)}" for name in ("mypy", "librt")))
    except PackageNotFoundError as error:
        raise CannotCompileError(f"mypyc is missing: {error}") from error
    return "\n".join((*tools, SUFFIX, *compiler(), *OPTIONS, Path(__file__).read_text()))


def set_key(sources: Sequence[Path], top: Path, tools: str) -> str:
    """Of the listed files and all of the package they import, directly or not: mypyc looks at the
    types of what it does not compile."""
    digest = hashlib.sha256(tools.encode())
    files = {module_name(Path("src") / path.relative_to(top)): path for path in top.rglob("*.py")}
    waiting = [module_name(source) for source in sources]
    digest.update("\n".join(waiting).encode())
    texts: dict[str, bytes] = {}
    while waiting:
        name = waiting.pop()
        path = files.get(name) or files.get(f"{name}.__init__")
        if name in texts or path is None:
            continue
        texts[name] = path.read_bytes()
        for module, names in _IMPORT.findall(texts[name].decode()):
            waiting.append(module)
            waiting += [f"{module}.{one}" for one in re.findall(r"\w+", names)]
        waiting.append(name.rpartition(".")[0])
    for name in sorted(texts):
        digest.update(name.encode() + b"\0" + texts[name])
    return digest.hexdigest()[:32]


class Declarations:
    """The common header, in pieces: which of them does a C file depend on?

    A piece is a declaration, with all lines up to the one that ends it. It counts if the C file, or
    a piece that counts, has one of the names that mypyc has made for this package; a piece without
    such names always counts.
    """

    def __init__(self, header: str) -> None:
        self.always: list[int] = []
        self.by_name: dict[str, list[int]] = {}
        self.texts = list(pieces(header))
        self.names = [frozenset(_OWN_NAME.findall(text)) for text in self.texts]
        for number, names in enumerate(self.names):
            if not names:
                self.always.append(number)
            for name in names:
                self.by_name.setdefault(name, []).append(number)

    def needed_by(self, text: str) -> str:
        """All that counts for a C file of that text, in the order of the header."""
        waiting = set(_OWN_NAME.findall(text))
        seen: set[str] = set()
        found = set(self.always)
        while waiting:
            name = waiting.pop()
            seen.add(name)
            for number in self.by_name.get(name, ()):
                if number not in found:
                    found.add(number)
                    waiting |= self.names[number] - seen
        return "".join(self.texts[number] for number in sorted(found))


def pieces(header: str) -> Iterable[str]:
    """The declarations of a header: split where a line ends one and no bracket is open."""
    lines: list[str] = []
    depth = 0
    for line in header.splitlines(keepends=True):
        lines.append(line)
        depth += line.count("{") - line.count("}")
        if depth == 0 and (
            line.startswith("#") or line.rstrip().endswith((";", "}")) or not line.strip()
        ):
            yield "".join(lines)
            lines = []
    yield "".join(lines)


# -- to C ------------------------------------------------------------------------------------------


def translate(sources: Sequence[Path], target: Path) -> "Translated":
    """Turn the modules into C below `target`. Raises: CannotCompileError."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        from mypyc.build import mypycify  # A build without mypyc is a plain one, not a failure.
    except ImportError as error:
        raise CannotCompileError(f"mypyc is missing: {error}") from error
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            extensions = mypycify(
                [*MYPY_OPTIONS, *(str(source) for source in sources)],
                multi_file=True,
                group_name=GROUP,
                target_dir=str(target),
            )
    except SystemExit as error:
        wrong = [line for line in said.getvalue().splitlines() if "error:" in line]
        raise CannotCompileError(f"mypyc refused the source: {' '.join(wrong[:1])}") from error
    except Exception as error:
        raise CannotCompileError(f"mypyc failed: {error}") from error
    library = next(one for one in extensions if one.name == LIBRARY)
    return Translated(target, [Path(path) for path in library.sources], tuple(library.include_dirs))


@dataclass(frozen=True, slots=True)
class Translated:
    """What mypyc wrote. files: all C files of the library; directories: of headers."""

    target: Path
    files: list[Path]
    directories: tuple[str, ...]


def prepared(made: Translated, tools: str) -> list[Unit]:
    """The C files with constants of their own, and their keys."""
    header = made.target / f"__native_internal_{GROUP}.h"
    main = made.target / f"__native_{GROUP}.c"
    declared = header.read_text() + (made.target / f"__native_{GROUP}.h").read_text()
    texts = {path: path.read_text() for path in made.files}
    declared = own_constants(header, main, texts, declared)
    declarations = Declarations(declared)
    units = []
    for path, text in texts.items():
        path.write_text(text)
        # The file of the group itself depends on the whole header, mypyc's own files on none of it.
        is_module = path.name.startswith(f"__native_{GROUP}___")
        needed = declarations.needed_by(text) if is_module else declared
        if not depends_on_header(path):
            needed = ""
        key = hashlib.sha256("\0".join((tools, path.name, text, needed)).encode()).hexdigest()
        units.append(Unit(path, made.directories, key[:32]))
    return units


def own_constants(header: Path, main: Path, texts: dict[Path, str], declared: str) -> str:
    """Give every module's C file an array of its own for the constants it uses, in the order of
    their use, and have the group's file fill them; return the header's text without the size of
    the large array. Texts are changed in place.

    Where mypyc's output does not look as expected, everything stays as it is.
    """
    if not _CONSTANTS_FILLED.search(texts[main]) or not _CONSTANTS_DECLARED.search(declared):
        return declared
    arrays: list[str] = []
    fills: list[str] = []
    for path, text in texts.items():
        if not path.name.startswith(f"__native_{GROUP}___"):
            continue
        numbers: dict[str, int] = {}
        for number in _CONSTANT.findall(text):
            numbers.setdefault(number, len(numbers))
        if not numbers:
            continue
        name = f"CPyOwn_{path.stem.removeprefix('__native_')}"
        parts = _CONSTANT.split(text)
        parts[1::2] = [f"{name}[{numbers[number]}]" for number in parts[1::2]]
        declaration = f"#include <Python.h>\nextern PyObject *{name}[];\n"
        texts[path] = declaration + "".join(parts)
        arrays.append(f"PyObject *{name}[{len(numbers)}];\n")
        arrays.append(f"static const int {name}_from[] = {{{', '.join(numbers)}}};\n")
        fills.append(
            f"    for (int i = 0; i < {len(numbers)}; i++)"
            f" {name}[i] = CPyStatics[{name}_from[i]];\n"
        )
    filled = _CONSTANTS_FILLED.search(texts[main])
    assert filled is not None, "looked for above"
    at = filled.end()
    body = texts[main][:at] + "\n" + "".join(fills) + texts[main][at:]
    start = body.index("int CPyGlobalsInit(void)")
    texts[main] = body[:start] + "".join(arrays) + body[start:]
    declared = _CONSTANTS_DECLARED.sub("extern PyObject *CPyStatics[];", declared)
    header.write_text(_CONSTANTS_DECLARED.sub("extern PyObject *CPyStatics[];", header.read_text()))
    return declared


# -- to machine code -------------------------------------------------------------------------------


def compiler() -> list[str]:
    """The C compiler and the options that Python itself was built with."""
    chosen = os.environ.get("CC") or str(sysconfig.get_config_var("CC") or "cc")
    return [*shlex.split(chosen), *shlex.split(str(sysconfig.get_config_var("CFLAGS") or ""))]


def linker() -> list[str]:
    """The command that makes a loadable module."""
    command = shlex.split(str(sysconfig.get_config_var("LDSHARED") or "cc -shared"))
    if os.environ.get("CC"):
        command[:1] = shlex.split(os.environ["CC"])
    return command


def processors() -> int:
    """How many compilers run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(command: Sequence[str]) -> None:
    """Raises: CannotCompileError with the compiler's first line."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or [
            "no reason given"
        ]
        raise CannotCompileError(f"the C compiler failed: {lines[0][:140]}")


def compile_units(units: Sequence[Unit], kept: Path) -> tuple[list[Path], int]:
    """The object files, and how many of them had to be compiled. Raises: CannotCompileError."""
    kept.mkdir(parents=True, exist_ok=True)
    objects = [kept / f"{unit.key}.o" for unit in units]
    waiting = []
    for unit, path in zip(units, objects, strict=True):
        if path.is_file():
            os.utime(path)
        else:
            waiting.append((unit, path))
    # The largest first, so that no processor is left with one of them at the end.
    waiting.sort(key=lambda one: -one[0].path.stat().st_size)
    common = read_header_once(units) if len(waiting) >= UNITS_WORTH_A_HEADER else []

    def compile_one(unit: Unit, path: Path) -> None:
        half = path.with_suffix(f".{os.getpid()}")
        first = common if depends_on_header(unit.path) else []
        command = [*compiler(), *OPTIONS, *first, *places(unit), "-c", str(unit.path)]
        run([*command, "-o", str(half)])
        # Moved when whole: an interrupted build must not leave half a file under this name.
        half.rename(path)

    with ThreadPoolExecutor(processors()) as pool:
        futures = [pool.submit(compile_one, unit, path) for unit, path in waiting]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return objects, len(waiting)


def places(unit: Unit) -> list[str]:
    """Where its headers lie."""
    return [f"-I{place}" for place in (*unit.directories, sysconfig.get_path("include"))]


def depends_on_header(file: Path) -> bool:
    """Whether it is of the package: mypyc's own files know nothing of it."""
    return file.name.startswith("__native_")


def read_header_once(units: Sequence[Unit]) -> list[str]:
    """Have the compiler keep the common header in its own form: reading it is a tenth to a half of
    the time that one file takes. The options that make the others begin with it."""
    unit = next((unit for unit in units if depends_on_header(unit.path)), None)
    if unit is None:
        return []
    common = unit.path.parent / "common.h"
    common.write_text(f'#include "__native_{GROUP}.h"\n#include "__native_internal_{GROUP}.h"\n')
    words = ("-x", "c-header", str(common), "-o", f"{common}.gch")
    run([*compiler(), *OPTIONS, *places(unit), *words])
    return ["-include", str(common)]


def link(objects: Sequence[Path], library: Path) -> None:
    """All object files into the one library. Raises: CannotCompileError."""
    run([*linker(), "-s", *(str(path) for path in objects), "-o", str(library)])


ENTRANCE: Final = """
typedef struct _object PyObject;
PyObject *PyImport_ImportModule(const char *);
PyObject *PyObject_GetAttrString(PyObject *, const char *);
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyInit_{last}(void) {{
    PyObject *library = PyImport_ImportModule("{library}");
    PyObject *capsule = library ? PyObject_GetAttrString(library, "init_{symbol}") : 0;
    void *init = capsule ? PyCapsule_GetPointer(capsule, "{library}.init_{symbol}") : 0;
    return init ? ((PyObject *(*)(void))init)() : 0;
}}
"""
"""What Python loads under a module's name: it calls the module's own start in the library. mypyc
writes such files as well, with all of Python's headers, which take ten times as long to compile.
Library and capsule live as long as the process."""


def make_entrances(modules: Sequence[str], into: Path, kept: Path, tools: str) -> None:
    """One small file for each module. Raises: CannotCompileError."""

    def make_one(module: str) -> None:
        text = ENTRANCE.format(
            last=module.rpartition(".")[2], library=LIBRARY, symbol=module.replace(".", "___")
        )
        key = hashlib.sha256((tools + text).encode()).hexdigest()[:32]
        made = kept / f"{key}.so"
        if not made.is_file():
            source, half = kept / f"{key}.{os.getpid()}.c", kept / f"{key}.{os.getpid()}"
            source.write_text(text)
            run([*linker(), "-fPIC", "-O1", "-s", str(source), "-o", str(half)])
            half.rename(made)
            source.unlink()
        os.utime(made)
        path = into / f"{module.replace('.', '/')}{SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(made, path)

    with ThreadPoolExecutor(processors()) as pool:
        list(pool.map(make_one, modules))


def forget_old(folder: Path, count: int) -> None:
    """Keep the `count` entries that were used last."""
    entries = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in entries[count:]:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
