"""`penstock definitions` against a running broker: files, standard streams, faults."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.definitions import definitions
from tests.unit.cli.broker_process import BrokerProcess

ROWS = {
    "queues": [{"vhost": "/", "name": "q", "durable": True, "arguments": {"x-max-length": 5}}],
    "global_parameters": [{"name": "strange", "value": 1}],
}


def said(broker: BrokerProcess, *words: str, given: str = "") -> tuple[str, str]:
    """What the command printed, on either stream. Raises: OperatorError."""
    done = CliRunner().invoke(definitions, [*words, "--control", broker.control], input=given)
    if done.exception is not None:
        raise done.exception
    return done.stdout, done.stderr


def test_in_from_a_file_and_out_again(broker: BrokerProcess, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text(json.dumps(ROWS), encoding="utf-8")
    out, error = said(broker, "import", str(path))
    assert out == "imported 1 queues\n" and "'strange' is not known here" in error
    assert said(broker, "import", "-", given=json.dumps(ROWS))[0].startswith("imported nothing")
    target = tmp_path / "out.json"
    target.write_text("old", encoding="utf-8")
    assert said(broker, "export", str(target))[0] == ""
    found = json.loads(target.read_text(encoding="utf-8"))
    assert json.loads(said(broker, "export")[0])["queues"] == found["queues"]
    assert found["queues"][0]["arguments"] == {"x-max-length": 5}
    assert target.stat().st_mode & 0o777 == 0o600 and sorted(os.listdir(tmp_path)) == [
        "in.json",
        "out.json",
    ]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "is not JSON"),
        ("[]", "holds no JSON object"),
        ('{"queues": [{}]}', r"queues\[0\]: names no vhost.*nothing was imported"),
        ('{"queues": 1}', "queues: must be a list"),
    ],
)
def test_a_fault_is_one_line(broker: BrokerProcess, tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "in.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(OperatorError, match=fault):
        said(broker, "import", str(path))


def test_places_that_are_none(broker: BrokerProcess, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="cannot read"):
        said(broker, "import", str(tmp_path / "none.json"))
    with pytest.raises(OperatorError, match=r"cannot write .*nothing was changed"):
        said(broker, "export", str(tmp_path / "none" / "out.json"))
    (tmp_path / "in.json").write_text("{}", encoding="utf-8")
    with pytest.raises(OperatorError, match="no vhost 'x'; one of: /"):
        said(broker, "import", str(tmp_path / "in.json"), "--vhost", "x")
