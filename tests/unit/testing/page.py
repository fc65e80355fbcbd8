"""The programs in docs/testing.md: blocks of Python whose first line is the name of their file."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[3] / "docs" / "testing.md"
BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.M | re.S)


def section(heading: str) -> dict[str, str]:
    """The files of the section called `heading`, by name. Raises: AssertionError without any."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found = {match[1].removesuffix(".py"): match[2] for match in BLOCK.finditer(text)}
    assert found, f"no programs in section '{heading}' of {PAGE.name}"
    return found


def sections_with_programs() -> list[str]:
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    return [part.partition("\n")[0] for part in parts if BLOCK.search(part)]
