"""Inputs that are kept: fuzz/kept/TARGET.txt, a line of hexadecimal digits each.

python fuzz/corpus.py TARGET          run all of them
python fuzz/corpus.py TARGET HEX      run one
"""

import sys
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

FOLDER = Path(__file__).parent / "kept"
KEPT_BYTES_MAX = 200_000
"""Of one target, about; the shortest inputs are kept."""


def path_of(target: str) -> Path:
    return FOLDER / f"{target}.txt"


def kept_in(path: Path) -> list[bytes]:
    """The inputs in a file, none where there is no file."""
    if not path.exists():
        return []
    return [bytes.fromhex(line) for line in path.read_text(encoding="ascii").split("\n") if line]


def write_kept(target: str, inputs: Iterable[bytes]) -> None:
    """Keep `inputs`, the shortest first, as far as there is room."""
    lines: list[str] = []
    left = KEPT_BYTES_MAX
    for data in sorted(set(inputs), key=lambda one: (len(one), one)):
        left -= 2 * len(data) + 1
        if left < 0:
            break
        if data:
            lines.append(data.hex())
    FOLDER.mkdir(exist_ok=True)
    path_of(target).write_text("\n".join(lines) + "\n", encoding="ascii")


def main() -> None:
    from fuzz.targets import TARGETS

    name = sys.argv[1]
    inputs = [bytes.fromhex(one) for one in sys.argv[2:]] or kept_in(path_of(name))
    for data in inputs:
        TARGETS[name](data)
    print(f"{name}: nothing wrong with {len(inputs)}")


if __name__ == "__main__":
    main()
