"""Makes the web site of the pages below docs/: `make site`, then open site/index.html.

The five parts and their order are those of docs/README.md, the only place that lists the pages.
Pages are built from copies, since the project's other pages (README, CHANGELOG …) are linked to and
belong to it. Nothing is loaded from the network, neither to build the site nor to read it.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INDEX = ROOT / "docs" / "README.md"
BESIDE = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE"),
    *("native_build.py", "tests/layers.py"),
)
FOLDERS = ("docs", "packaging", "bench", "examples")
ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)]+)\) \|")
SETTINGS = """\
project = "Penstock"
extensions = ["myst_parser"]
root_doc = "README"
myst_heading_anchors = 4
# Blocks of a shell session or of output are shown as they are.
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
html_theme = "furo"
html_title = "Penstock"
html_copy_source = False
html_show_sourcelink = False
"""


def parts(index: str) -> dict[str, list[str]]:
    """Heading of a part -> paths of its pages below docs/, as docs/README.md lists them.

    Raises: ValueError for a row of a table that stands below no heading.
    """
    found: dict[str, list[str]] = {}
    heading = ""
    for line in index.splitlines():
        if line.startswith("## "):
            heading = line[3:].strip()
            found[heading] = []
        elif row := ROW.match(line):
            if not heading:
                raise ValueError(f"a page that belongs to no part: {line!r}")
            found[heading].append(row.group(2))
    return found


def tree(caption: str, pages: list[str]) -> str:
    """A part of what stands at the left of each page."""
    lines = "\n".join(page.removesuffix(".md") for page in pages)
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def stage(into: Path) -> None:
    """Copies of everything that a page links to, the first with the list of all others."""
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for name in BESIDE:
        (into / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, into / name)
    for folder in FOLDERS:
        shutil.copytree(
            ROOT / folder, into / folder, ignore=shutil.ignore_patterns("__pycache__", "out")
        )
    (into / "conf.py").write_text(SETTINGS, encoding="utf-8")
    trees = [tree("All pages", ["docs/README.md"])]
    for heading, pages in parts(INDEX.read_text(encoding="utf-8")).items():
        trees.append(tree(heading, [f"docs/{page}" for page in pages]))
    others = ["CHANGELOG.md", "CONTRIBUTING.md"]
    for folder in FOLDERS[1:]:
        others += sorted(str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.md"))
    trees.append(tree("Project", others))
    with (into / "README.md").open("a", encoding="utf-8") as first:
        first.writelines(trees)
    decisions = into / "docs" / "adr" / "README.md"
    with decisions.open("a", encoding="utf-8") as index:
        names = sorted(path.name for path in decisions.parent.glob("[0-9]*.md"))
        index.write(tree("Decisions", names))


def main() -> None:
    work = ROOT / "build" / "site"
    stage(work / "pages")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"),
            *("-d", str(work / "known"), str(work / "pages"), str(ROOT / "site")),
        ],
        check=False,
    )
    if done.returncode:
        sys.exit("the site was not made: mend what is said above")
    shutil.copy(ROOT / "site" / "README.html", ROOT / "site" / "index.html")
    print(f"open {ROOT / 'site' / 'index.html'}")


if __name__ == "__main__":
    main()
