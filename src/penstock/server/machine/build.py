"""Whether the installed Penstock is compiled, and why it is not if compiling it went wrong.

All hot modules are compiled as one group or none is, so one of them answers for all
(scripts/show_build.py looks at each).
"""

import importlib.util
from pathlib import Path
from typing import Final

ONE_OF_THEM: Final = "penstock.broker.actors.actor"
COMPILED: Final = "compiled"
PLAIN: Final = "plain Python"
REASON_FILE: Final = Path(__file__).resolve().parent.parent / "not-compiled.txt"
"""Written into the package by setup.py when it had to fall back to plain Python: one line."""


def build_kind() -> str:
    """COMPILED or PLAIN."""
    spec = importlib.util.find_spec(ONE_OF_THEM)
    assert spec is not None and spec.origin is not None, f"{ONE_OF_THEM} is part of the package"
    return PLAIN if Path(spec.origin).suffix == ".py" else COMPILED


def fallback_reason(file: Path = REASON_FILE) -> str:
    """Why this installation could not be compiled, "" if nobody tried or it could."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def build_words() -> str:
    """For people: `compiled`, or `plain Python` with the reason of a fallback."""
    kind, reason = build_kind(), fallback_reason()
    if kind == COMPILED:
        return kind
    return f"{kind}, not compiled: {reason}" if reason else f"{kind}, not compiled"
