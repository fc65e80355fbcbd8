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


def test_what_is_installed_by_hand_without_librt_is_all_that_is_needed() -> None:
    """Packages of the line in docs/install.md; those that Penstock does without are left out."""
    page = (REPOSITORY / "docs" / "install.md").read_text(encoding="utf-8")
    section = page.partition("\n## Without librt\n")[2].partition("\n## ")[0]
    (line,) = re.findall(r"^pip install ([^-].*)$", section, re.M)
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = {re.split(r"[^\w-]", one)[0] for one in project["dependencies"]}
    assert set(line.split()) == named - {"google-crc32c", "librt"}


def test_the_page_about_commands_has_no_escapes_in_code() -> None:
    """Between backticks Markdown shows them as they are."""
    text = (REPOSITORY / "docs" / "commands.md").read_text(encoding="utf-8")
    code = [
        one
        for line in text.splitlines()
        if not line.startswith("|")
        for one in re.findall(r"`([^`]*)`", line)
    ]
    assert [one for one in code if "\\" in one] == []


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
