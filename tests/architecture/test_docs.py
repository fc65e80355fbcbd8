"""The files that CONTRIBUTING names are there, and state machines are drawn as they are."""

import re
import tomllib

import pytest

from scripts.commands_page import page as commands
from scripts.state_machines_page import page as state_machines
from scripts.web_site import parts
from tests.architecture.house import PACKAGE, REPOSITORY

INSTALLED = re.compile(r"(?:pip install|uvx --from (?!\.))[^\n`]*?[\s'\"]penstock(?![-\w/.])")
"""`penstock` on the package index is another project: ours is penstock-mq."""
SENTENCES = ("src", "docs", "scripts", "bench", "examples", "packaging")
NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+)(\.py)?`")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_a_page_names_files_that_are_there(page: str) -> None:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    named = {found.group(1) for found in NAMED.finditer(text)}
    assert len(named) > 1, "the page names nothing, or this test reads it wrongly"
    missing = [
        name
        for name in sorted(named)
        if not any(
            place.is_dir() or place.with_suffix(".py").is_file()
            for place in (PACKAGE / name, REPOSITORY / name)
        )
    ]
    assert not missing, missing


def test_the_page_about_state_machines_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "state-machines.md").read_text(encoding="utf-8")
    assert written == state_machines(), "run: make docs"


def test_every_page_belongs_to_one_of_the_five_parts() -> None:
    docs = REPOSITORY / "docs"
    listed = parts((docs / "README.md").read_text(encoding="utf-8"))
    assert list(listed) == ["Start", "Use", "Operate", "Understand", "Reference"]
    pages = [page for part in listed.values() for page in part]
    there = {path.name for path in docs.glob("*.md")} - {"README.md"} | {"adr/README.md"}
    assert sorted(pages) == sorted(there), "docs/README.md lists every page once"


def test_a_page_of_no_part_is_refused() -> None:
    with pytest.raises(ValueError, match="belongs to no part"):
        parts("| [x.md](x.md) | what |")


def test_the_page_about_commands_is_up_to_date() -> None:
    written = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    assert written == commands(), "run: make docs"


def test_the_distribution_is_called_the_same_everywhere() -> None:
    pages = [
        path
        for folder in SENTENCES
        for kind in ("*.py", "*.md", "*.toml", "*.service", "*.yaml", "Dockerfile")
        for path in (REPOSITORY / folder).rglob(kind)
        if "adr" not in path.parts
    ]
    pages += [REPOSITORY / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
    wrong = [
        f"{path.relative_to(REPOSITORY)}: {found.group()}"
        for path in pages
        for found in INSTALLED.finditer(path.read_text(encoding="utf-8"))
        # The name that is imported may follow in the same line, as in `penstock-mq penstock serve`.
        if "penstock-mq" not in found.group()
    ]
    assert not wrong, wrong
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "penstock-mq"
    assert project["scripts"] == {"penstock": "penstock.cli.main:main"}
