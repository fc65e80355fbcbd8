"""Completion in the shell, switched on as docs/install.md says: a real bash asks the command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

# What bash does when somebody presses TAB: the words go into COMP_WORDS, what fits is in COMPREPLY.
PRESS_TAB = """
eval "$(_PENSTOCK_COMPLETE=bash_source penstock)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_penstock_completion penstock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("penstock vh", ["vhosts"]),
        ("penstock serve --prof", ["--profile"]),
        ("penstock serve --profile rabbitmq-4", ["rabbitmq-4"]),
        ("penstock why con", ["connection", "consumer"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words: str, completed: list[str]) -> None:
    here = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-c", PRESS_TAB.format(words=words)],
        env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == completed, done.stderr


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_are_given_a_script(shell: str) -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "penstock")],
        env={**os.environ, "_PENSTOCK_COMPLETE": f"{shell}_source"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "_PENSTOCK_COMPLETE" in done.stdout and "penstock" in done.stdout
