"""Counts what says how the source is cut: files, lines, folders, bases with one subclass, names.

python scripts/house_figures.py             the figures
python scripts/house_figures.py --names     with the classes, bases and tests behind them
python scripts/house_figures.py --src DIR   of another checkout's src/penstock
"""

import ast
from argparse import ArgumentParser
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
QUEUE_KINDS: Final = frozenset(
    {
        "QueueActor",
        "StreamActor",
        "StreamQueue",
        "LeaseActor",
        "DelayStore",
        "DelayActor",
        "Queue",
        "PagedQueue",
        "BodiesPaged",
        "RuledQueue",
        "RuledPaged",
        "PriorityQueue",
        "PriorityPaged",
        "DeduplicatedQueue",
        "DeduplicatedPaged",
        "PagedRecords",
        "PlainRecords",
        "Records",
        "Ring",
        "Line",
        "Levels",
        "ClassicQueue",
        "ReplicatedQueue",
    }
)
"""Classes that are a kind of queue, or of what holds a queue's messages, before and after."""


def trees(folder: Path) -> Iterator[tuple[Path, str, ast.Module]]:
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        yield path, text, ast.parse(text)


def declares_only(node: ast.ClassDef) -> bool:
    """Whether a class has methods and none of them does anything."""
    methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
    return bool(methods) and all(_does_nothing(one) for one in methods)


def _does_nothing(method: ast.FunctionDef) -> bool:
    body = [
        one
        for one in method.body
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
    ]
    return all(isinstance(one, ast.Raise | ast.Pass) for one in body)


def asks_for_kind(node: ast.Call) -> bool:
    """Whether a call is an `isinstance` on a kind of queue."""
    return name_of(node.func) == "isinstance" and bool(
        {name_of(one) for one in _kinds(node.args[1])} & QUEUE_KINDS
    )


def name_of(node: ast.expr) -> str:
    return ast.unparse(node).split("[")[0].split(".")[-1]


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--src", type=Path, default=ROOT / "src" / "penstock")
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    lines = files = 0
    folders: Counter[str] = Counter()
    classes: dict[str, list[str]] = defaultdict(list)
    abstract: set[str] = set()
    children: dict[str, list[str]] = defaultdict(list)
    kinds: list[str] = []
    for path, text, tree in trees(options.src):
        short = path.relative_to(options.src).as_posix()
        files += 1
        lines += len(text.splitlines())
        folders[str(Path(short).parent)] += 1
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(short)
                for base in node.bases:
                    children[name_of(base)].append(f"{short}:{node.name}")
                if declares_only(node):
                    abstract.add(node.name)
            elif isinstance(node, ast.Call) and asks_for_kind(node):
                kinds.append(f"{short}:{node.lineno} {ast.unparse(node)}")
    tests = sum(len(text.splitlines()) for _, text, _ in trees(options.src.parents[1] / "tests"))
    single = sorted(name for name in abstract if len(children[name]) == 1)
    several = {name: places for name, places in classes.items() if len(places) > 1}
    folder, most = folders.most_common(1)[0]
    print(f"source        {files:,} files, {lines:,} lines")
    print(f"tests         {tests:,} lines")
    print(f"folder        {most} files in {folder}")
    print(f"bases         {len(abstract)} only declare methods, {len(single)} have one subclass")
    print(f"isinstance    {len(kinds)} on kinds of queue")
    print(f"class names   {len(several)} in several files")
    if options.names:
        for name in single:
            print("base with one subclass:", name, classes[name], children[name])
        for name, places in sorted(several.items()):
            print("name in several files:", name, *places)
        for one in kinds:
            print("isinstance:", one)


def _kinds(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Tuple):
        return node.elts
    if isinstance(node, ast.BinOp):
        return [*_kinds(node.left), *_kinds(node.right)]
    return [node]


if __name__ == "__main__":
    main()
