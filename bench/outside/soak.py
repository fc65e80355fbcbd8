"""Does a broker that runs for long stay as it was?

Clients of all kinds connect, work and go, with and without TLS, some without a word, while users
are made, changed and deleted under them and an operator asks. What the broker's process has is
looked at all the time; when everybody has gone, nothing of theirs may be left.

    python bench/outside/soak.py                        # 30 minutes
    python bench/outside/soak.py --minutes 1 --json soak.json

Ends with 1 when something is left over, or grows: the median of resident memory, or of open files,
in the last third of the time is above that of the second third by more than a tenth.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.machine import describe
from bench.outside.attack import rss_mb
from bench.outside.broker import CLI, LiveBroker
from bench.outside.soakers import KINDS
from penstock.server.control.control_client import ask

SHARE: Final = 0.1
LEFT_S: Final = 20.0
LASTING: Final = {"lasting-tls", "lasting-plain", "stream", "quorum", "dead", "left"}
"""Queues that clients leave behind on purpose."""
USER: Final = "changing"


@dataclass(frozen=True, slots=True)
class Look:
    """The broker's process at one time. seconds: since the beginning; rss_mb: resident memory;
    files: open descriptors; threads: of the process; connections, queues: it has."""

    seconds: float
    rss_mb: float
    files: int
    threads: int
    connections: int
    queues: int


def look(broker: LiveBroker, began: float) -> Look:
    pid = broker.process.pid
    status: dict[str, Any] = ask(str(broker.control), {"op": "status"}, 30.0)
    return Look(
        round(time.monotonic() - began, 1),
        rss_mb(pid),
        len(list(Path(f"/proc/{pid}/fd").iterdir())),
        len(list(Path(f"/proc/{pid}/task").iterdir())),
        len(status["connections"]),
        len(status["queues"]),
    )


class Operator:
    """Changes users, one thing a time, and asks. late: commands that did not end in time: on a busy
    machine that is said, and no reason to stop."""

    def __init__(self, broker: LiveBroker) -> None:
        self.broker = broker
        self.count = 0
        self.late = 0

    def step(self) -> None:
        """Raises: CalledProcessError when a command that has to succeed does not."""
        steps = (
            ("users", "add", USER, "first-password"),
            ("permissions", "set", USER, ".*", ".*", ".*"),
            ("users", "set-tags", USER, "monitoring"),
            ("users", "change-password", USER, "soak-password"),
            ("queues",),
            ("why", "--window", "1"),
            ("flow", "accounts"),
            ("permissions", "set", USER, "^$", ".*", ".*"),
            ("users", "delete", USER),
        )
        words = steps[self.count % len(steps)]
        self.count += 1
        try:
            done = self.broker.command(*words)
        except subprocess.TimeoutExpired:
            self.late += 1
            return
        if done.returncode not in (0, 3):
            raise subprocess.CalledProcessError(
                done.returncode, " ".join(words), done.stdout, done.stderr
            )


def grew(looks: list[Look], name: str) -> str:
    """What to say if it did, "" if not."""
    third = len(looks) // 3
    if third == 0:
        return ""
    before = statistics.median(getattr(one, name) for one in looks[third : 2 * third])
    after = statistics.median(getattr(one, name) for one in looks[2 * third :])
    if after <= before * (1 + SHARE):
        return ""
    return f"{name} grew from {before:.1f} to {after:.1f} between the second and the last third"


def left_over(broker: LiveBroker, first: Look, began: float) -> list[str]:
    """What is there when everybody has gone. Waits for ends that take their time."""
    until = time.monotonic() + LEFT_S
    while (last := look(broker, began)).connections and time.monotonic() < until:
        time.sleep(0.5)
    status: dict[str, Any] = ask(str(broker.control), {"op": "status"}, 30.0)
    strange = sorted({name.rpartition("/")[2] for name in status["queues"]} - LASTING)
    found = [f"queues are left: {', '.join(strange)}"] if strange else []
    if last.connections:
        found.append(f"{last.connections} connections are left")
    if last.files > first.files + len(LASTING) + 4:
        found.append(f"{last.files} files are open, {first.files} were at the beginning")
    return found


def soak(minutes: float, port: int, every_s: float) -> tuple[list[Look], dict[str, str], list[str]]:
    """Looks, what each kind of client did, and what is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        certs = Path(folder) / "certs"
        words = [*CLI, "tls", "selfsigned", str(certs), "--host", "localhost"]
        subprocess.run(words, check=True, capture_output=True)
        key, cert, ca = (str(certs / one) for one in ("server.key", "server.pem", "ca.pem"))
        options = ["--tls-port", str(port + 1), "--tls-cert", cert, "--tls-key", key]
        with contextlib.ExitStack() as stack:
            broker = stack.enter_context(LiveBroker(Path(folder), port, *options))
            began = time.monotonic()
            first = look(broker, began)
            workers: dict[str, subprocess.Popen[str]] = {}
            people = [(kind, "guest", "guest") for kind in KINDS]
            people += [(kind, USER, "soak-password") for kind in ("tls", "plain")]
            for kind, user, password in people:
                words = [sys.executable, str(Path(__file__).with_name("soakers.py")), kind]
                words += [str(port), str(port + 1), ca, user, password]
                workers[f"{kind} as {user}"] = stack.enter_context(
                    subprocess.Popen(
                        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                    )
                )
            operator = Operator(broker)
            looks: list[Look] = []
            while time.monotonic() - began < minutes * 60:
                looks.append(look(broker, began))
                print(" ".join(f"{name} {value}" for name, value in asdict(looks[-1]).items()))
                sys.stdout.flush()
                until = time.monotonic() + every_s
                while time.monotonic() < until:
                    operator.step()
                    time.sleep(1.0)
            did = {name: worker.communicate()[0].strip() for name, worker in workers.items()}
            did["operator"] = f"{operator.count} {operator.late}"
            wrong = left_over(broker, first, began)
            wrong += [
                text for name in ("rss_mb", "files", "threads") if (text := grew(looks, name))
            ]
            if operator.late * 10 > operator.count:
                wrong.append(f"{operator.late} of the operator's commands took over a minute")
            for name, text in did.items():
                if not text or int(text.split()[0]) < 3:
                    wrong.append(f"{name} went through its work {text or 'no'} times")
            errors = [
                line
                for line in (Path(folder) / "broker.log").read_text().splitlines()
                if "internal error" in line or "Traceback" in line
            ]
            return looks, did, wrong + errors[:5]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--every", type=float, default=20.0, help="seconds between looks (20)")
    parser.add_argument("--port", type=int, default=5880)
    parser.add_argument("--smoke", action="store_true", help="half a minute")
    parser.add_argument("--json", type=Path, help="write looks and counts there")
    options = parser.parse_args()
    if options.smoke:
        options.minutes, options.every = 0.5, 3.0
    machine = describe()
    print(", ".join(f"{key} {value}" for key, value in machine.items()), end="\n\n", flush=True)
    looks, did, wrong = soak(options.minutes, options.port, options.every)
    print("\nclient: times through its work, times refused (the operator: too late)")
    for name, text in did.items():
        print(f"  {name}: {text}")
    print("\n".join(wrong) if wrong else "nothing is left over, and nothing grew")
    if options.json:
        rows = [asdict(one) for one in looks]
        options.json.write_text(json.dumps({"machine": machine, "looks": rows, "did": did}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
