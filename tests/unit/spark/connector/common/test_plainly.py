"""Our own errors reach Spark as one sentence; those of the program with their traceback."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("pyspark")


def told(tmp_path: Path, raised: str, method: str) -> str:
    """What a worker of Spark would say: it runs as one, and fails in `method`."""
    script = textwrap.dedent(f"""
        import io
        from pyspark.util import handle_worker_exception
        from penstock.base.errors import OperatorError
        from penstock.spark.connector.common.plainly import plainly

        class Base:
            def call(self):
                {raised}

        @plainly
        class Reader(Base):
            def call(self):
                super().call()
            def rows(self):
                yield 1
                super().call()
            def handed(self):
                return (one for one in self.rows())

        try:
            found = Reader().{method}()
            list(found or ())
        except Exception as error:
            out = io.BytesIO()
            handle_worker_exception(error, out)
            print(out.getvalue()[8:].decode(), end="")
    """)
    return run_by_spark(tmp_path, script)


def run_by_spark(tmp_path: Path, script: str) -> str:
    """What `script` prints in a process that Spark has started."""
    # What Spark starts is a module of its own package.
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "fake_runner.py").write_text(script, encoding="utf-8")
    start = (
        "import runpy, sys, pyspark; pyspark.__path__.append(sys.argv[1]); "
        "runpy.run_module('pyspark.fake_runner', run_name='__main__', alter_sys=True)"
    )
    run = subprocess.run(
        [sys.executable, "-c", start, str(tmp_path / "pyspark")],
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("method", ["call", "rows", "handed"])
def test_an_error_of_ours_is_its_sentence(tmp_path: Path, method: str) -> None:
    raised = """
                try:
                    raise ValueError("below")
                except ValueError as error:
                    raise OperatorError("option queue is missing") from error
    """.strip()
    assert told(tmp_path, raised, method) == (
        "penstock.base.errors.OperatorError: option queue is missing\n"
    )


def test_a_mistake_of_the_program_keeps_its_traceback(tmp_path: Path) -> None:
    text = told(tmp_path, 'raise KeyError("what")', "call")
    assert text.startswith("Traceback") and "fake_runner.py" in text


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("DeltaTables({'path': 'none'}).schema()", "there is no Delta table none yet"),
        ("DeltaTables({'pth': 'none'}).streamReader(None).initialOffset()", "did you mean path"),
        ("DeltaTables({'path': 'none'}).streamWriter(None, True)", "use outputMode append"),
        ("DeltaStreamReader('none', None, 1).latestOffset(READ, None)", "none is gone"),
        ("list(DeltaStreamReader('none', EMPTY, 1).read(PART))", "is gone before it was read"),
        ("DeltaWriter('none', '', None).write(iter(()))", "give option appId"),
    ],
)
def test_so_are_those_of_delta_tables(tmp_path: Path, call: str, words: str) -> None:
    pytest.importorskip("deltalake")
    script = textwrap.dedent(f"""
        import io
        from pyspark.sql.types import StructType
        from pyspark.util import handle_worker_exception
        from penstock.spark.tables.delta_sink import DeltaWriter
        from penstock.spark.tables.delta_source import DeltaPartition, DeltaStreamReader
        from penstock.spark.tables.delta_table import DeltaTables
        READ, EMPTY, PART = {{"table": "t", "version": 0}}, StructType(), DeltaPartition(("f",))
        try:
            {call}
        except Exception as error:
            out = io.BytesIO()
            handle_worker_exception(error, out)
            print(out.getvalue()[8:].decode(), end="")
    """)
    text = run_by_spark(tmp_path, script)
    assert text.startswith("penstock.base.errors.OperatorError: ") and words in text
    assert text.count("\n") == 1
