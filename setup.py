"""Builds Penstock: the hot modules compiled where that is possible, plain Python elsewhere.

    PENSTOCK_PURE=1           never compile
    PENSTOCK_COMPILE=require  fail the build when the modules cannot be compiled
    neither                   try; on failure say why in one line and install plain Python

native_build.py does the compiling, and keeps what it has made. An editable installation is always
plain Python: compiled modules lying in the source tree would hide every later edit of the files
beside them.
"""

import os
import shutil
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
# The build front ends run this file without its directory on the path.
sys.path.insert(0, str(ROOT))

from native_build import CannotCompileError, build, finished_names, module_name  # noqa: E402

COMPILE_LIST = Path("compile_list.txt")
PACKAGE = Path("src", "penstock")
# Part of the package: the installed broker says it, because pip hides what a build prints.
REASON = "penstock/not-compiled.txt"
EXAMPLE = Path("examples", "orders")
"""Goes into the package as well: `penstock run` plays it, and whoever has no clone may copy it."""


class WithExample(build_py):
    """The package, and in it the example. In an editable installation it stays where it is."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for file in example_files():
                target = Path(self.build_lib, "penstock", file)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / file, target)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        copied = [str(Path(self.build_lib, "penstock", file)) for file in example_files()]
        return [*super().get_outputs(include_bytecode), *copied]


class CompileOrFallBack(build_ext):
    """Puts the compiled modules beside the plain ones; without a compiler leaves a word why."""

    def run(self) -> None:
        if self.editable_mode:
            return
        target = Path(self.build_lib)
        listed = sources()
        self.forget(target, listed)
        try:
            made = build(listed, ROOT, say)
        except CannotCompileError as error:
            if os.environ.get("PENSTOCK_COMPILE") == "require":
                raise
            say(f"NOT COMPILED, installing plain Python: {error}")
            (target / REASON).write_text(f"{error}\n", encoding="utf-8")
            return
        for name in finished_names(listed):
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(made / name, target / name)

    def forget(self, target: Path, listed: list[Path]) -> None:
        """What an earlier build has left: one module without its group would not import."""
        (target / REASON).parent.mkdir(parents=True, exist_ok=True)
        for name in (REASON, *finished_names(listed)):
            (target / name).unlink(missing_ok=True)

    def get_outputs(self) -> list[str]:
        target = Path(self.build_lib)
        names = (REASON, *finished_names(sources()))
        return [str(target / name) for name in names if (target / name).is_file()]


def say(text: str) -> None:
    """One line, which scripts/install.py shows; pip shows it with -v."""
    sys.stderr.write(f"penstock: {text}\n")
    sys.stderr.flush()


def example_files() -> list[Path]:
    """Below the root."""
    return sorted(EXAMPLE / one.name for one in (ROOT / EXAMPLE).iterdir() if one.is_file())


def sources() -> list[Path]:
    """The files on the compile list. Raises: FileNotFoundError for a name without a file."""
    lines = COMPILE_LIST.read_text(encoding="utf-8").splitlines()
    paths = [PACKAGE / line.strip() for line in lines if line.strip() and line[0] != "#"]
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise FileNotFoundError(f"{COMPILE_LIST} names missing files: {', '.join(missing)}")
    return paths


def extensions() -> list[Extension]:
    """Named for setuptools, which makes a wheel for this platform then; the class above builds."""
    if os.environ.get("PENSTOCK_PURE") == "1":
        return []
    return [Extension(module_name(source), []) for source in sources()]


setup(ext_modules=extensions(), cmdclass={"build_ext": CompileOrFallBack, "build_py": WithExample})
