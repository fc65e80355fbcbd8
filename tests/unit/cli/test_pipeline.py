"""`penstock pipeline`: faults that say what to do, before any Spark starts."""

import shutil
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.base.errors import OperatorError
from penstock.cli.main import cli
from penstock.cli.pipeline import show
from penstock.spark.job.about import About, write_about
from penstock.spark.job.pipeline import origin_of
from penstock.spark.report.summary import TableSource, summarise
from penstock.spark.schema.formats import Check, RunDescription
from penstock.spark.schema.rows import BlameRow, Tables
from tests.spark.synthetic import World, write_world


def penstock(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *map(str, arguments)])


@pytest.mark.parametrize(
    ("name", "words"), [("pyspark", "the pipeline needs pyspark"), ("pyarrow", "pyarrow")]
)
def test_without_spark_a_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: str
) -> None:
    write_world(tmp_path / "in", World(seed=21, messages=10))
    # What cannot be imported is not there.
    monkeypatch.setitem(sys.modules, name, None)
    said = penstock("run", "--input", tmp_path / "in", "--tables", tmp_path / "tables")
    assert isinstance(said.exception, OperatorError)
    told = str(said.exception)
    assert words in told and 'pip install "penstock-mq[spark]"' in told
    assert "\n" not in told and not (tmp_path / "tables").exists()


def test_a_report_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_about(tmp_path, About(TableSource("", 0, 0, 0, 0), 10**9, 0, RunDescription()))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    fault = penstock("report", "--tables", tmp_path, "--output", tmp_path / "o").exception
    assert isinstance(fault, OperatorError)
    assert str(fault) == 'the report needs pyarrow: pip install "penstock-mq[spark]"'


def test_another_width_of_buckets_is_refused(tmp_path: Path) -> None:
    about = About(TableSource("", 0, 0, 0, 0), 2 * 10**9, 77, RunDescription())
    write_about(tmp_path, about)
    assert origin_of(tmp_path, RunDescription(), 2 * 10**9) == 77
    with pytest.raises(OperatorError, match="go on with --bucket 2"):
        origin_of(tmp_path, RunDescription(), 10**9)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "--input", "nowhere", "--tables", "t"), "is not a directory"),
        (("report", "--tables", "nowhere", "--output", "o"), "penstock pipeline run --input"),
    ],
)
def test_what_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fault = penstock(*arguments).exception
    assert isinstance(fault, OperatorError)
    assert words in str(fault)


def test_tables_that_cannot_be_made_are_refused_before_spark_starts(tmp_path: Path) -> None:
    write_world(tmp_path / "in", World(seed=21, messages=10))
    (tmp_path / "file").touch()
    fault = penstock("run", "--input", tmp_path / "in", "--tables", tmp_path / "file").exception
    assert isinstance(fault, OperatorError)
    assert "file cannot be written: " in str(fault) and "choose another directory" in str(fault)


def test_names_of_clients_do_not_write_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    name = "shop\x1b[2J\n ✔ no confirmed message lost\u202e"
    rows = (BlameRow(0, f"conn:{name}", f"queue:/{name}", "broker work", f"conn:{name}", 10**9),)
    tables = Tables((), rows, (), (), (), (), (), (), ())
    run = RunDescription(checks=(Check(name, "kept", name),), messages=(name,))
    show(summarise(tables, run, TableSource("", 1, 0, 0, 0)))
    said = capsys.readouterr().out
    assert "shop\\x1b[2J\\n ✔ no confirmed" in said
    assert all(line.isprintable() and line[1] in "✔✘–·1 " for line in said.splitlines())
    assert said.count("\n ✔ no confirmed") == 0


def test_tables_that_cannot_be_exported_are_told(tmp_path: Path) -> None:
    write_about(tmp_path, About(TableSource("", 0, 0, 0, 0), 10**9, 0, RunDescription()))
    wanted = ("report", "--tables", tmp_path, "--output", tmp_path / "o", "--export", "csv")
    assert penstock(*wanted).exit_code == 0
    assert (tmp_path / "o" / "tables" / "root_cause.csv").read_text().startswith('"bucket_ns"')
    shutil.rmtree(tmp_path / "o" / "tables")
    (tmp_path / "o" / "tables").touch()
    fault = penstock(*wanted).exception
    assert isinstance(fault, OperatorError) and "choose another directory" in str(fault)
