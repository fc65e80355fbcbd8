"""Is `why` right? Injects culprits in random pairs into a running broker, and compares.

    python -m bench.outside.culprits --seeds 200 --out results.jsonl
    python -m bench.outside.culprits --smoke
    python -m bench.outside.culprits --first 17 --seeds 1

A seed chooses two of the kinds (culprit_kinds), when each begins and whether it ends before it is
asked; the names of the two are all that the score knows. What is true is sampled from outside
(truth). Of each answer is scored:
    root      the first cause is what was injected
    share     of the window in which the victim was held, within 5 points
    duration  of it, within 10 % or 0.2 s
    advice    a suggestion says what would help, and a command in it can be run; asked of what is
              still going on: of what has ended the numbers it would be drawn from are gone
    helps     applied, the victim goes on: at 1.5 times its rate, or half its own pace
    hurts     applied, it is slower than before: counted, and the score must have none
An answer counts as right when everything but the last is. It is disturbed, and counted apart, when
in its window this program stood still for STILL_S, or the broker was STARVED_S late in answering
basic.qos, or had the victim wait before anything was injected: then others used the processor.
--at-once plays so many pairs at the same time, whose victims send less each.
"""

import argparse
import json
import re
import socket
import struct
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Final, TextIO, cast

from bench.outside.broker import LiveBroker
from bench.outside.culprit_kinds import DEPTH_BYTES, GLOBAL, KINDS, USERS, Case, Yard
from bench.outside.truth import Pulse, Truth
from bench.outside.wire import Connection, Failed, short

WINDOW_S: Final = 9.0
BEFORE_S: Final = 3.0
"""A victim is older than the window it is asked about, or shares of its life would be shares."""
ASKED_AFTER_S: Final = 7.5
HEALED_S: Final = 3.0
SHARE: Final = 0.05
DURATION: Final = 0.1
DURATION_S: Final = 0.2
STILL_S: Final = 0.3
STARVED_S: Final = 0.3
LATE_BEFORE_S: Final = 0.15
PACE: Final = 1500.0
"""Of all pairs' victims together, messages a second and half as many."""
HELPS: Final = 1.5
HURTS: Final = 0.7
ROUNDS_A_BROKER: Final = 10
SMOKE: Final = (("gone", "rate_queue"), ("expired", "memory_alarm"))
COMMAND: Final = re.compile(r"penstock ((?:flow|queues|policies) .+?)(?: or |, |; |$)")


@dataclass(frozen=True)
class Score:
    """One answer about one victim. share, said: what was true and what was said; a `share` below
    SHARE has no root to be named."""

    seed: int
    kind: str
    beside: str
    share: float
    said: float
    root: str
    is_root: bool
    is_share: bool
    is_duration: bool
    is_advice: bool
    is_disturbed: bool
    before_s: float
    helps: bool = True
    hurts: bool = False
    after_s: float = -1.0
    text: str = ""

    def is_right(self) -> bool:
        return self.is_root and self.is_share and self.is_duration and self.is_advice and self.helps


def definitions(folder: Path) -> Path:
    """Users and virtual hosts for limits of their own."""
    users = [f"u{index}" for index in range(USERS)]
    vhosts = [f"v{index}" for index in range(USERS)]
    all_of = {"configure": ".*", "write": ".*", "read": ".*"}
    whole = {
        "users": [{"name": one, "password": one, "tags": ""} for one in users],
        "vhosts": [{"name": one} for one in vhosts],
        "permissions": [
            *({"user": one, "vhost": "/", **all_of} for one in users),
            *({"user": "guest", "vhost": one, **all_of} for one in vhosts),
        ],
    }
    path = folder / "definitions.json"
    path.write_text(json.dumps(whole))
    return path


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def start(folder: Path, profile: str) -> LiveBroker:
    """A broker with its users and virtual hosts. Raises: Failed."""
    options = ("--profile", profile, "--queue-depth", str(DEPTH_BYTES))
    broker = LiveBroker(folder, free_port(), *options)
    done = broker.command("definitions", "import", str(definitions(folder)))
    done_memory = broker.command("flow", "set", "memory.high=60%")
    if done.returncode != 0 or done_memory.returncode != 0:
        broker.stop()
        raise Failed(done.stdout + done.stderr + done_memory.stderr)
    return broker


def chosen(rng: Random, kinds: list[str]) -> tuple[str, str]:
    """Two kinds, of which at most one is global."""
    while True:
        first, second = rng.choice(kinds), rng.choice(kinds)
        if not (first in GLOBAL and second in GLOBAL):
            return first, second


def together(pairs: list[tuple[str, str]], at_once: int) -> list[list[int]]:
    """Their indices in groups of `at_once` or less, with at most one global kind in each."""
    groups: list[list[int]] = []
    for index, pair in enumerate(pairs):
        is_global = bool(GLOBAL & set(pair))
        for group in groups:
            has_global = any(GLOBAL & set(pairs[one]) for one in group)
            if len(group) < at_once and not (is_global and has_global):
                group.append(index)
                break
        else:
            groups.append([index])
    return groups


class Round:
    """Some seeds at the same time on one broker, two cases each, from their beginning to what was
    scored of them."""

    def __init__(
        self, broker: LiveBroker, seeds: list[int], pairs: list[tuple[str, str]], pace: float = PACE
    ) -> None:
        self.broker = broker
        self.seeds = seeds
        rngs = [Random(seed) for seed in seeds for _ in "ab"]
        self.rngs = [rngs[index - index % 2] for index in range(len(rngs))]
        self.loop = broker.make_loop()
        broker.loop = self.loop
        self.truth = Truth(self.loop, broker.port)
        self.admin = Connection(self.loop, broker.port, name="admin")
        self.admin.channel()
        self.pulse = Pulse(self.loop, broker.port)
        self.truth.watch(self.pulse)
        self.yards = [
            Yard(
                broker,
                self.loop,
                self.truth,
                self.admin,
                self.rngs[index],
                f"s{seeds[index // 2]}{'ab'[index % 2]}",
                index,
                pace / len(seeds),
            )
            for index in range(2 * len(seeds))
        ]
        kinds = [kind for pair in pairs for kind in pair]
        self.cases = [KINDS[kind](yard) for kind, yard in zip(kinds, self.yards, strict=True)]
        self.lifted: set[int] = set()
        self.last: list[float] = []

    def play(self) -> list[Score]:
        """Inject, ask, score, apply what is advised. Raises: Failed."""
        self.loop.run(BEFORE_S)
        now = self.loop.now()
        late = [self.truth.held_s(case.victim, now - 1.0, now) for case in self.cases]
        self._run_plan(now)
        scores: list[Score] = []
        advice: list[list[str]] = []
        for number, case in enumerate(self.cases):
            before = self._paces(2.0 if number == 0 else 0.0)
            answer = self.broker.why("connection", case.victim.name, window_s=WINDOW_S)
            score = self._score(number, case, answer, before[number], late[number])
            scores.append(score)
            advice.append(cast(list[str], answer["suggestions"]))
        return self._heal(scores, advice)

    def _run_plan(self, began: float) -> None:
        plan: list[tuple[float, int, Callable[[], object]]] = []
        for number, (case, rng) in enumerate(zip(self.cases, self.rngs, strict=True)):
            plan.append((rng.uniform(0.0, 2.0), number, case.inject))
            if rng.random() < 0.4:
                at = rng.uniform(4.5, 6.0)
                plan.append((at, number, case.lift))
                self.lifted.add(number)
        for at, _, act in sorted(plan, key=lambda one: one[0]):
            self.loop.run(max(0.0, began + at - self.loop.now()))
            act()
        self.loop.run(max(0.0, began + ASKED_AFTER_S - 2.0 - self.loop.now()))

    def _paces(self, seconds: float) -> list[float]:
        """Confirms a second of each victim."""
        if seconds > 0.0:
            counts = [case.victim.confirmed for case in self.cases]
            took = self.loop.run(seconds)
            self.last = [
                (case.victim.confirmed - count) / took
                for case, count in zip(self.cases, counts, strict=True)
            ]
        return self.last

    def _score(
        self, number: int, case: Case, answer: dict[str, object], before_s: float, late_s: float
    ) -> Score:
        begin, end = (cast(int, answer[key]) / 1e9 for key in ("start_ns", "end_ns"))
        true_s = self.truth.held_s(case.victim, begin, end)
        share = true_s / (end - begin)
        said = cast(float, answer["blocked_share"])
        said_s = cast(int, answer["blocked_ns"]) / 1e9
        causes = cast(list[dict[str, object]], answer["causes"])
        root = cast(str, causes[0]["root"]) if causes else ""
        others = [
            index for index, one in enumerate(self.cases) if one.is_global and one is not case
        ]
        found = [index for index in others if root in _as_of(self.cases[index], case)]
        culprit = found[0] if found and root not in case.roots else number
        suggestions = cast(list[str], answer["suggestions"])
        is_still = self.truth.longest_gap(begin, end) > STILL_S
        is_starved = self.truth.held_s(self.pulse, begin, end) > STARVED_S
        is_named = share < SHARE or root in case.roots or bool(found)
        return Score(
            self.seeds[number // 2],
            case.kind,
            self.cases[number ^ 1].kind,
            round(share, 3),
            round(said, 3),
            root,
            is_named,
            abs(share - said) <= SHARE,
            abs(true_s - said_s) <= max(DURATION_S, DURATION * true_s),
            share < SHARE
            or culprit in self.lifted
            or any(re.search(self.cases[culprit].advice, one) for one in suggestions),
            is_still or is_starved or late_s > LATE_BEFORE_S,
            round(before_s, 1),
            text="" if is_named else cast(str, answer["text"]),
        )

    def _heal(self, scores: list[Score], advice: list[list[str]]) -> list[Score]:
        """Do what was advised for whoever is still held, and look whether it helps."""
        ran: list[bool] = []
        for number, case in enumerate(self.cases):
            commands = [found for one in advice[number] for found in COMMAND.findall(one)]
            is_well = True
            if number in self.lifted:
                pass
            elif not case.is_command:
                case.lift()
            elif commands:
                is_well = self.broker.command(*_words(commands[0])).returncode == 0
            ran.append(is_well)
        self.loop.run(1.5)
        after = self._paces(HEALED_S)
        healed: list[Score] = []
        for number, (case, score) in enumerate(zip(self.cases, scores, strict=True)):
            # What was held may be confirmed faster than the victim sends.
            pace, before_s = after[number], min(score.before_s, case.victim.pace)
            if number in self.lifted or score.share < SHARE:
                healed.append(score)
                continue
            helps = pace >= min(HELPS * before_s, 0.5 * case.victim.pace) and pace > 0
            healed.append(
                replace(
                    score,
                    helps=helps and ran[number],
                    hurts=pace < HURTS * before_s,
                    after_s=round(pace, 1),
                )
            )
        return healed

    def end(self) -> None:
        """Leave the broker as it was found."""
        for case in self.cases:
            if case.is_global or case.is_command:
                case.lift()
        self.loop.close()
        self.broker.loop = None
        for vhost in sorted({vhost for yard in self.yards for vhost, _ in yard.queues}):
            loop = self.broker.make_loop()
            cleaner = Connection(loop, self.broker.port, vhost=vhost)
            cleaner.channel()
            for yard in self.yards:
                for of, queue in yard.queues:
                    if of == vhost:
                        head = struct.pack(">H", 0) + short(queue) + b"\x00"
                        cleaner.call(1, 50, 40, head)
            loop.close()


def _as_of(culprit: Case, victim: Case) -> tuple[str, ...]:
    """The roots of a global culprit as another victim meets them: each connection has its limit."""
    return tuple(root.replace(culprit.victim.name, victim.victim.name) for root in culprit.roots)


def _words(command: str) -> list[str]:
    return command.split()


def play(
    broker: LiveBroker, seeds: list[int], pairs: list[tuple[str, str]], pace: float = PACE
) -> list[Score]:
    """Some seeds at the same time. Raises: Failed."""
    one = Round(broker, seeds, pairs, pace)
    try:
        return one.play()
    finally:
        one.end()


def table(scores: list[Score]) -> str:
    """A row for each kind, and the sum."""
    lines = [f"{'kind':<20} {'n':>4} root share durat advic helps hurts right"]
    kinds = sorted({score.kind for score in scores})
    counted = [one for one in scores if not one.is_disturbed]
    for kind in [*kinds, "all"]:
        of = [one for one in counted if kind in (one.kind, "all")]
        sums = [
            sum(one.is_root for one in of),
            sum(one.is_share for one in of),
            sum(one.is_duration for one in of),
            sum(one.is_advice for one in of),
            sum(one.helps for one in of),
            sum(one.hurts for one in of),
            sum(one.is_right() for one in of),
        ]
        cells = " ".join(f"{number:>5}" for number in sums)
        lines.append(f"{kind:<19} {len(of):>4} {cells}")
    disturbed = len(scores) - len(counted)
    lines.append(f"{disturbed} of {len(scores)} answers were disturbed and are not counted")
    return "\n".join(lines)


def run(
    seeds: range,
    pairs: list[tuple[str, str]],
    profile: str,
    out: TextIO | None,
    at_once: int = 1,
) -> list[Score]:
    """Every seed; a broker of its own for each ROUNDS_A_BROKER rounds. pairs: of the seeds, in
    order; none for what each seed chooses."""
    scores: list[Score] = []
    pairs = pairs or [chosen(Random(-seed - 1), list(KINDS)) for seed in seeds]
    groups = together(pairs, at_once)
    for at in range(0, len(groups), ROUNDS_A_BROKER):
        with tempfile.TemporaryDirectory() as folder, start(Path(folder), profile) as broker:
            for group in groups[at : at + ROUNDS_A_BROKER]:
                some = [seeds[index] for index in group]
                try:
                    found = play(broker, some, [pairs[index] for index in group])
                except (Failed, OSError) as error:
                    print(f"seeds {some}: {error}", file=sys.stderr)
                    break
                for score in found:
                    scores.append(score)
                    if out is not None:
                        out.write(json.dumps({**asdict(score), "right": score.is_right()}) + "\n")
                        out.flush()
    return scores


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--profile", default="penstock")
    parser.add_argument("--out", help="a line of JSON for each answer")
    parser.add_argument("--only", help="this kind beside random ones")
    parser.add_argument("--at-once", type=int, default=1, help="pairs at the same time, 1 to 4")
    parser.add_argument("--smoke", action="store_true", help="a few fixed pairs")
    asked = parser.parse_args(arguments)
    seeds = range(asked.first, asked.first + asked.seeds)
    pairs: list[tuple[str, str]] = []
    if asked.smoke:
        seeds, pairs = range(len(SMOKE)), list(SMOKE)
    elif asked.only:
        pairs = [(asked.only, chosen(Random(seed), list(KINDS))[0]) for seed in seeds]
    if asked.out is None:
        scores = run(seeds, pairs, asked.profile, None, asked.at_once)
    else:
        with open(asked.out, "w") as out:
            scores = run(seeds, pairs, asked.profile, out, asked.at_once)
    print(table(scores))
    wrong = [one for one in scores if not one.is_right() and not one.is_disturbed]
    for one in wrong:
        print(json.dumps(asdict(one)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
