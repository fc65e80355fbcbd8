"""The program that attacks a broker beside a ping-pong client, briefly."""

import json
from pathlib import Path

import pytest

from tests.bench.programs import output_of

ATTACKS = ("topics", "bodies", "consumers", "guessing", "handshakes")


@pytest.mark.slow
def test_others_go_on_beside_each_attack(tmp_path: Path) -> None:
    """Their times are the machine's; what must hold is that they end, and what memory it takes."""
    out = tmp_path / "rows.json"
    output_of("outside/attack.py", "--smoke", "--only", ",".join(ATTACKS), "--json", str(out))
    rows = {row["name"]: row for row in json.loads(out.read_text())["rows"]}
    assert tuple(rows) == ATTACKS
    for row in rows.values():
        assert row["did"] > 10 and row["quiet"]["count"] > 10 and row["attacked"]["count"] > 0, row
    before, most = rows["bodies"]["rss_mb"]
    assert most - before < 150, "64 MiB of unfinished bodies, and what is on its way"
