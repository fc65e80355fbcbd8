"""Asks every command of an installed Penstock for its help, and those that need more than the
package alone for what they need.

    scripts/ask_commands.py ENVIRONMENT EXTRAS     EXTRAS: what is installed there, "" for none

Exit status 1 when one of them fails, or says nothing of the extra it lacks.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

SECONDS_MAX: Final = 120.0
LACKING: Final[dict[tuple[str, ...], tuple[str, int]]] = {
    # Words of the command line, the extra without which it does not work, its exit status then.
    ("run",): ("demo", 2),
    ("sweep",): ("spark", 2),
    ("pipeline", "run", "--input", "events", "--tables", "tables"): ("spark", 2),
}
WITHOUT_SPARK: Final = ("run", "--duration", "0.1", "--report", "report")
"""With the clients of the demonstration and no Spark it checks, and says what is left out."""
WITHOUT_EXTRAS: Final[tuple[tuple[str, ...], ...]] = (
    ("version",),
    ("store", "check", "--data", "nowhere"),
)


def ask(environment: Path, words: tuple[str, ...], folder: str) -> subprocess.CompletedProcess[str]:
    command = [str(environment.resolve() / "bin" / "penstock"), *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS_MAX, cwd=folder, check=False
    )


def wrong_with(environment: Path, extras: set[str]) -> list[str]:
    """What did not go as it should, in a line each."""
    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="penstock-ask-") as folder:
        overview = ask(environment, ("--help",), folder)
        commands = [
            line.split()[0] for line in overview.stdout.partition("Commands:\n")[2].splitlines()
        ]
        if overview.returncode != 0 or not commands:
            return [f"penstock --help: {overview.stderr.strip()[-300:]}"]
        for name in commands:
            for flag in ("--help", "-h"):
                done = ask(environment, (name, flag), folder)
                if done.returncode != 0 or not done.stdout.startswith("Usage: penstock"):
                    found.append(f"penstock {name} {flag}: {done.stderr.strip()[-300:]}")
        for words in WITHOUT_EXTRAS:
            done = ask(environment, words, folder)
            if "Traceback" in done.stderr or "ModuleNotFoundError" in done.stderr:
                found.append(f"penstock {' '.join(words)}: {done.stderr.strip()[-300:]}")
        events = Path(folder) / "events" / "events-a.jsonl"
        events.parent.mkdir()
        events.touch()
        for words, (extra, status) in LACKING.items():
            if extra in extras:
                continue
            done = ask(environment, words, folder)
            said = (done.stdout + done.stderr).strip()
            # `run` says what it is before it looks for what it needs.
            lines = [line for line in said.splitlines() if not line.startswith("penstock ")]
            named = f"penstock-mq[{extra}]"
            if done.returncode != status or len(lines) != 1 or named not in lines[0]:
                found.append(f"penstock {' '.join(words)} without {extra}: {said[-300:]}")
        if "demo" in extras and "spark" not in extras:
            done = ask(environment, WITHOUT_SPARK, folder)
            told = [line for line in done.stdout.splitlines() if "penstock-mq[spark]" in line]
            if "✔ no confirmed message lost" not in done.stdout or len(told) != 1:
                found.append(f"penstock run without spark: {(done.stdout + done.stderr)[-900:]}")
    print(f"asked {len(commands)} commands of {environment}, extras: {' '.join(extras) or 'none'}")
    return found


def main() -> int:
    environment, extras = Path(sys.argv[1]), set(filter(None, sys.argv[2].split(",")))
    wrong = wrong_with(environment, extras)
    for line in wrong:
        print(f"✘ {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
