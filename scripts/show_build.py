"""Says whether the installed Penstock is compiled, module by module of the compile list.

Exits with 1 when only some of the listed modules are compiled: such a build is broken.
"""

import importlib.util
import sys
from pathlib import Path

COMPILE_LIST = Path(__file__).resolve().parent.parent / "compile_list.txt"


def listed_modules() -> list[str]:
    """Full names of the modules on the compile list, in its order."""
    lines = COMPILE_LIST.read_text(encoding="utf-8").splitlines()
    paths = [line.strip() for line in lines if line.strip() and line[0] != "#"]
    return ["penstock." + path.removesuffix(".py").replace("/", ".") for path in paths]


def is_compiled(module: str) -> bool:
    """Whether `module` would be imported from machine code. Raises ModuleNotFoundError."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(module)
    return Path(spec.origin).suffix != ".py"


def main() -> int:
    modules = listed_modules()
    compiled = [module for module in modules if is_compiled(module)]
    if compiled and len(compiled) == len(modules):
        print(f"penstock: compiled ({len(compiled)} modules)")
    elif not compiled:
        print("penstock: plain Python (no module is compiled)")
    else:
        plain = sorted(set(modules) - set(compiled))
        print(f"penstock: broken build, these modules are not compiled: {', '.join(plain)}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
