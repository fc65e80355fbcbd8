"""Builds Penstock: the hot modules through mypyc where that is possible, plain Python elsewhere.

    PENSTOCK_PURE=1           never compile
    PENSTOCK_COMPILE=require  fail the build when the modules cannot be compiled
    neither                   try; on failure say why in one line and install plain Python

An editable installation is always plain Python: compiled modules lying in the source tree would
hide every later edit of the files beside them.
"""

import os
import sys
from pathlib import Path
from typing import cast

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

COMPILE_LIST = Path("compile_list.txt")
PACKAGE = Path("src", "penstock")
GROUP = "penstock"
# pip hides what a build prints; `make install` shows the reason from here.
REASON = Path("build", "not-compiled.txt")
# The build environment holds none of the packages that Penstock uses when it runs.
MYPY_OPTIONS = ["--ignore-missing-imports", "--no-warn-unused-ignores"]

# The build front ends run setup.py several times, mostly to ask for metadata. Translating the
# modules takes seconds, so it happens only for the commands that go on to produce files.
COMMANDS_THAT_COMPILE = frozenset({"bdist_wheel", "build", "build_ext", "install"})


class CannotCompileError(Exception):
    """The hot modules cannot be compiled here; the text says why."""


class OptionalBuildExt(build_ext):
    """Compiles the translated modules; when the C compiler fails, leaves plain Python behind."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            if is_required():
                raise
            self.forget_extensions()
            report_fallback(f"the C compiler failed: {first_line(error)}")

    def forget_extensions(self) -> None:
        """Delete what was already linked: one module without its group would not import."""
        for extension in self.extensions:
            Path(self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
        self.extensions = []
        self.distribution.ext_modules = []


def is_required() -> bool:
    return os.environ.get("PENSTOCK_COMPILE") == "require"


def first_line(error: BaseException) -> str:
    """The error in at most about 140 characters: compilers' command lines are far longer."""
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line if len(line) <= 140 else f"{line[:60]} ... {line[-60:]}"


def report_fallback(reason: str) -> None:
    text = (
        f"penstock: not compiled, installing plain Python: {reason} "
        "(PENSTOCK_COMPILE=require makes this an error)\n"
    )
    sys.stderr.write(text)
    REASON.parent.mkdir(exist_ok=True)
    REASON.write_text(text, encoding="utf-8")


def sources() -> list[str]:
    """The files on the compile list. Raises FileNotFoundError for a name without a file."""
    lines = COMPILE_LIST.read_text(encoding="utf-8").splitlines()
    paths = [PACKAGE / line.strip() for line in lines if line.strip() and line[0] != "#"]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{COMPILE_LIST} names missing files: {', '.join(missing)}")
    return [str(path) for path in paths]


def translate(paths: list[str]) -> list[Extension]:
    """Turn the modules into C. Raises CannotCompileError; mypyc itself exits on a type error."""
    try:
        from mypyc.build import mypycify  # A build without mypyc is a plain one, not a failure.
    except ImportError as error:
        raise CannotCompileError(f"mypyc is missing: {first_line(error)}") from error
    try:
        translated = mypycify(
            [*MYPY_OPTIONS, *paths], opt_level="3", debug_level="1", group_name=GROUP
        )
        # mypyc makes setuptools' kind of extension whenever setuptools is loaded, as it is here.
        return cast(list[Extension], translated)
    except SystemExit as error:
        raise CannotCompileError("mypyc refused the source, for the reasons above") from error
    except Exception as error:
        raise CannotCompileError(f"mypyc failed: {first_line(error)}") from error


def extensions() -> list[Extension]:
    paths = sources()
    if os.environ.get("PENSTOCK_PURE") == "1" or not COMMANDS_THAT_COMPILE & set(sys.argv):
        return []
    if not paths:
        return []
    try:
        return translate(paths)
    except CannotCompileError as error:
        if is_required():
            raise
        report_fallback(str(error))
        return []


setup(ext_modules=extensions(), cmdclass={"build_ext": OptionalBuildExt})
