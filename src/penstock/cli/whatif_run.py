"""What `penstock whatif KEY=VALUE` does, apart from its options, so that help need not load it.

Model beside observation first: who does not believe the first table need not read the second.
"""

import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

import click
from rich.console import Console

from penstock.base.errors import OperatorError
from penstock.base.quantities import parse_duration_ns
from penstock.cli.record import fetch
from penstock.cli.replay import read_record
from penstock.lab.peers import PeerFailed
from penstock.lab.table import new_table
from penstock.server.control.control_client import ask
from penstock.simulation.machine.faults import LawBroken
from penstock.telemetry.record_file import decode_packed
from penstock.whatif.change import Setup, all_changed, by_key, recorded, window_of
from penstock.whatif.doubt import doubts_of
from penstock.whatif.judge import (
    CHANGED,
    FALLS,
    MACHINE_MS,
    NO_DOUBTS,
    RISES,
    SAME,
    UNSURE,
    Check,
    Prediction,
    checks,
    errors,
    predictions,
)
from penstock.whatif.model import Model, ModelledRun, model_of, run_model
from penstock.whatif.observe import Observed, observe, prefetch_of

NS_PER_S = 1_000_000_000


def run_whatif(
    changes: tuple[str, ...], last: str, file: Path | None, path: str, form: str
) -> None:
    """What the command does; its words are those of the options. Raises: OperatorError."""
    values = by_key(changes)
    window_s = parse_duration_ns(last) / NS_PER_S
    record = decode_packed(current_bytes(path, window_s)) if file is None else read_record(file)
    seen = observe(record.history, window_s)
    if not seen.queues:
        raise OperatorError(
            f"nothing was published or answered in the last {seen.span_s:.0f} s of the record, so "
            "there is no load to replay; choose a longer --last"
        )
    config = recorded(record.header.profile, record.header.settings)
    prefetches = {one.name: prefetch_of(record.history, one.name, window_s) for one in seen.queues}
    model = model_of(seen, prefetches, window_of(config))
    setup = Setup(config, model.workload)
    wanted = all_changed(setup, values)
    before = simulated(model, setup)
    found = checks(seen, before)
    made: list[Prediction] = []
    doubts = NO_DOUBTS
    if changes:
        after = simulated(model, wanted)
        doubts = doubts_of(seen, model, wanted.workload, values, before, after)
        made = predictions(seen, before, after, found, doubts)
    if form == "json":
        click.echo(
            json.dumps(
                {
                    "span_s": seen.span_s,
                    "checks": [asdict(one) for one in found],
                    "predictions": [asdict(one) for one in made],
                    "notes": model.notes,
                    "unsure": doubts.sentences(),
                }
            )
        )
        return
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
    show_load(console, seen, model)
    show_checks(console, found)
    if changes:
        show_predictions(console, made, " ".join(changes))
        for sentence in doubts.sentences():
            console.print(f"unsure     {sentence}", soft_wrap=True)


def current_bytes(place: str, last_s: float) -> bytes:
    """The record of a running broker as a file holds it. Raises: OperatorError when there is
    none."""
    answer = ask(place, {"op": "record", "do": "save", "last_s": last_s})
    if "records" in answer:
        raise OperatorError(
            "this broker has several workers, each with a record of its own virtual hosts: save "
            "them with penstock record save, and name one of the files with --file"
        )
    number = answer["number"]
    assert isinstance(number, int | float), "the broker answers with a number"
    return fetch(place, int(number))


def simulated(model: Model, setup: Setup) -> ModelledRun:
    """A run. Raises: OperatorError when it goes wrong."""
    try:
        return run_model(replace(model, workload=setup.workload), setup.config)
    except (LawBroken, PeerFailed) as error:
        raise OperatorError(f"the simulation went wrong: {error}") from error


def show_load(console: Console, seen: Observed, model: Model) -> None:
    """What is replayed."""
    workload = model.workload
    console.print(
        f"recorded   {seen.span_s:.0f} s: {len(seen.flows)} flows into {len(seen.queues)} queues, "
        f"{seen.in_per_s():.0f} msg/s"
    )
    console.print(
        f"simulated  {workload.seconds:.1f} s after {workload.warm_up_s:.1f} s of warming up"
    )
    for note in model.notes:
        console.print(f"assumed    {note}", soft_wrap=True)


def show_checks(console: Console, found: list[Check]) -> None:
    """The first table, and the band."""
    console.print("\n[bold]model versus observed[/]")
    table = new_table(("queue", "", "observed", "model", "error"))
    name = ""
    for one in found:
        error = (
            f"{one.error * 100:+.0f} points"
            if one.measure == "held time"
            else f"{one.error * 100:+.1f} %"
        )
        table.add_row(
            (one.queue or "all") if one.queue != name else "",
            TITLES[one.measure],
            shown(one.measure, one.observed),
            shown(one.measure, one.model),
            error,
        )
        name = one.queue
    console.print(table)
    worst = errors(found)
    console.print(
        "error band  " + ", ".join(f"{TITLES[name]} ± {worst[name] * 100:.0f} %" for name in worst),
        soft_wrap=True,
    )


def show_predictions(console: Console, made: list[Prediction], changes: str) -> None:
    """The second table."""
    console.print(f"\n[bold]with {changes}[/]")
    table = new_table(("queue", "", "model now", "model then", "expected", "band"))
    name = "?"
    for one in made:
        label = TITLES.get(one.measure, one.measure)
        expected = ARROWS[one.trend] if one.expected is None else shown(one.measure, one.expected)
        band = f"{shown(one.measure, one.low)} .. {shown(one.measure, one.high)}"
        table.add_row(
            (one.queue or "all") if one.queue != name else "",
            label,
            shown(one.measure, one.before),
            shown(one.measure, one.after),
            expected if one.is_sure or one.trend else "unsure",
            band if one.is_sure else "unsure",
        )
        name = one.queue
    console.print(table)
    console.print(
        "expected: observed × (model then / model now); band: the error above, and at least what "
        "was measured when settings were really changed",
        soft_wrap=True,
    )
    if any(one.trend == UNSURE and not one.why for one in made):
        console.print(
            f"no direction of a latency is stated that differs by less than "
            f"{(CHANGED - 1) * 100:.0f} %, or that stays below {MACHINE_MS:.0f} ms, where the "
            "machine decides",
            soft_wrap=True,
        )


ARROWS = {"": "not observed", RISES: RISES, FALLS: FALLS, SAME: SAME, UNSURE: UNSURE}
TITLES = {
    "in": "in, msg/s",
    "out": "answered, msg/s",
    "held": "messages held",
    "held time": "publishers held",
    "confirm mean, ms": "confirm mean, ms",
}


def shown(measure: str, value: float) -> str:
    """A value as people read it."""
    if measure == "held time":
        return f"{value * 100:.0f} %"
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"
