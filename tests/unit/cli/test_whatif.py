"""Tests of `penstock whatif` on a saved record: the check first, then the prediction."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.base.errors import OperatorError
from penstock.cli.whatif import whatif
from penstock.telemetry.flight import FlightHistory
from penstock.telemetry.record_file import Encoder, RecordHeader
from penstock.telemetry.snapshots import ActorSnapshot, Times

NS_PER_S = 1_000_000_000


def record(path: Path, rate: int, consumers: int = 1) -> Path:
    """Eleven rounds of a queue that takes and answers `rate` messages a second from one sender."""
    history = FlightHistory()
    for second in range(11):
        now_ns = second * NS_PER_S + 1
        times = Times(idle_ns=now_ns)
        count = float(rate * second)
        queue = {
            "published": count, "acked": count, "delivered": count, "ready": 0.0, "unacked": 1.0,
            "bytes": 360.0, "consumers": float(consumers), "sent:conn:one": count,
            "depth_bytes": 65_536.0,
        }  # fmt: skip
        history.push(
            now_ns,
            {
                "queue:/q": ActorSnapshot("queue:/q", "queue", times=times, numbers=queue),
                "conn:one": ActorSnapshot("conn:one", "conn", times=times),
                "consumer:1": ActorSnapshot(
                    "consumer:1", "consumer", times=times, numbers={"prefetch": 5.0, "n": count},
                    labels={"queue": "queue:/q"},
                ),
            },
        )  # fmt: skip
    header = RecordHeader("node", "boot", 0, 10 * NS_PER_S, "0", "penstock", "", 10.0)
    path.write_bytes(b"".join(Encoder(header, history, []).pieces()))
    return path


def test_model_and_observation_come_first(tmp_path: Path) -> None:
    path = record(tmp_path / "r.pflow", 200)
    found = CliRunner().invoke(whatif, ["--file", str(path), "--last", "10s", "load=3"])
    assert found.exit_code == 0, found.output
    text = found.output
    assert "recorded   10 s: 1 flows into 1 queues, 200 msg/s" in text
    assert text.index("model versus observed") < text.index("error band") < text.index("load=3")
    # Its consumer always had something unanswered, so what more it can do is not known.
    assert "unsure     queue:/q: its consumers were never at their limit" in text
    with_change = text[text.index("with load=3") :]
    assert with_change.count("unsure") > 6 and " .. " not in with_change


def test_what_is_sure_has_a_band(tmp_path: Path) -> None:
    path = record(tmp_path / "r.pflow", 200)
    found = CliRunner().invoke(whatif, ["--file", str(path), "--last", "10s", "load=0.5"])
    rows = found.output[found.output.index("with load=0.5") :].splitlines()
    unsure = [row for row in rows if "unsure" in row]
    # The model's latency is below what the machine decides, and nothing else is in doubt.
    assert len(unsure) == 1 and "delivery p99" in unsure[0]
    assert sum("94 .. 10" in row or "95 .. 10" in row for row in rows) == 2


def test_as_json(tmp_path: Path) -> None:
    path = record(tmp_path / "r.pflow", 200)
    found = CliRunner().invoke(
        whatif, ["--file", str(path), "--last", "10s", "load=3", "--format", "json"]
    )
    answer = json.loads(found.output)
    check = next(one for one in answer["checks"] if one["measure"] == "in")
    assert check["observed"] == pytest.approx(200) and abs(check["error"]) < 0.05
    made = next(one for one in answer["predictions"] if one["measure"] == "in")
    assert made["expected"] == pytest.approx(600, rel=0.05)
    assert made["is_sure"] is False and "never at their limit" in made["why"]
    assert answer["unsure"] == [f"queue:/q: {made['why']}"]


def test_without_load_there_is_nothing_to_replay(tmp_path: Path) -> None:
    path = record(tmp_path / "r.pflow", 0)
    found = CliRunner().invoke(whatif, ["--file", str(path)])
    assert isinstance(found.exception, OperatorError)
    assert "nothing was published" in str(found.exception)
    # What is wrong with the question is said first: nothing else would make it right.
    found = CliRunner().invoke(whatif, ["--file", str(path), "loud=2"])
    assert "'loud=2' is no change" in str(found.exception)


def foretold(path: Path, *changes: str) -> list[object]:
    """What is said of the change, as JSON."""
    words = ["--file", str(path), "--last", "10s", *changes, "--format", "json"]
    found = CliRunner().invoke(whatif, words)
    assert found.exit_code == 0, found.exception
    predictions: list[object] = json.loads(found.output)["predictions"]
    return predictions


def test_a_key_is_given_once(tmp_path: Path) -> None:
    path = record(tmp_path / "r.pflow", 200)
    found = CliRunner().invoke(whatif, ["--file", str(path), "load=2", " load = 3"])
    assert str(found.exception) == "load is given twice, as 2 and as 3; give one"


def test_a_prefetch_where_nobody_consumes(tmp_path: Path) -> None:
    """Of a queue with so little traffic that it is steady without a consumer, too."""
    path = record(tmp_path / "r.pflow", 1, consumers=0)
    assert foretold(path, "prefetch=10")
