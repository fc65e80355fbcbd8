"""The files that CONTRIBUTING names are there, and state machines are drawn as they are."""

import re

import pytest

from scripts.state_machines_page import page as state_machines
from tests.architecture.house import PACKAGE, REPOSITORY

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
