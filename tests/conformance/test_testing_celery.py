"""The part about Celery of docs/testing.md, run as it stands there."""

from pathlib import Path

from tests.unit.testing.page import section
from tests.unit.testing.test_plugin import FAST, run_pytest


def test_celerys_fixtures_with_a_real_broker(tmp_path: Path) -> None:
    said = run_pytest(tmp_path, *FAST, **section("Celery"))
    assert "2 passed" in said, said
