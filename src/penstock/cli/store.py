"""`penstock store`: is what lies on the disk whole, how much of it is there, give back room."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
import msgspec

from penstock.base.errors import OperatorError
from penstock.base.limits import STORE_SEGMENT_BYTES
from penstock.cli.asking import FORM, PAGE_ROWS, print_json
from penstock.cli.tables import RED, columns, console, more, say, show, table
from penstock.server.boot.config_file import read_config
from penstock.server.control.control_client import ask, find_control
from penstock.server.disk.offline_store import OfflineStores, OneStore, mend_catalogue, taken
from penstock.storage.check.findings import Finding, Findings
from penstock.telemetry.words import size

DATA_DIR: Final = "penstock-data"
MS_PER_S: Final = 1000
T = TypeVar("T")


def located(command: click.decorators.FC) -> click.decorators.FC:
    """Which data directory is meant."""
    command = click.option(
        "--json", "form", flag_value="json", hidden=True, help="The same as --format json."
    )(command)
    command = FORM(command)
    command = click.option("--config", "config_path", default="", help="The broker's TOML file.")(
        command
    )
    return click.option("--data", default="", help="Directory.  [default: ./penstock-data]")(
        command
    )


@click.group()
def store() -> None:
    """Look at the message store of a stopped broker, or give back its room."""


@store.command()
@located
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(0), help="Show so many findings."
)
def check(data: str, config_path: str, form: str, limit: int) -> None:
    """Read every record of every segment, of queues and streams, and say what is not whole.

    Changes nothing.

    Exit status: 0 nothing is damaged, 1 something is, 2 it could not be looked at.
    """
    began = time.monotonic()
    with _stores(data, config_path).held() as found:
        results = [(one, _done(one, found.check)) for one in [*_listed(found), *found.missing()]]
    fault = found.catalogue_fault
    damage = sum(result.damage_count for _, result in results) + (fault != "")
    if form == "json":
        print_json(_check_json(results, fault))
    else:
        _say_check(results, fault, limit, time.monotonic() - began)
    sys.exit(1 if damage else 0)


@store.command()
@located
@click.option("--port", default=0, help="Ask the broker that runs on this port instead.")
@click.option("--control", default="", help="Its control socket, if elsewhere.")
def stats(data: str, config_path: str, form: str, port: int, control: str) -> None:
    """Messages, bytes and segments of every virtual host, queue and stream."""
    if (port or control) and (data or config_path):
        raise OperatorError(
            f"--{'data' if data else 'config'} names a directory, and "
            f"--{'port' if port else 'control'} a broker that runs, which has one of its own: give "
            "one of the two"
        )
    if port or control:
        rows = _asked(control or find_control(port))
    else:
        from penstock.server.control.questions_store import stats_row

        with _stores(data, config_path).held() as found:
            rows = [
                stats_row(
                    one.vhost, one.names, _done(one, found.stats), _done(one, found.stream_stats)
                )
                for one in _listed(found)
            ]
    assert isinstance(rows, list), "the broker answers so"
    if form == "json":
        print_json({"vhosts": rows})
    else:
        _say_stats(rows)


def _asked(path: str) -> list[dict[str, Any]]:
    """The virtual hosts of a running broker, with the queues and streams of every page."""
    found: dict[str, dict[str, Any]] = {}
    after: object = ""
    while True:
        page = ask(path, {"op": "store", "limit": PAGE_ROWS, "after": after})
        for row in msgspec.convert(page["vhosts"], list[dict[str, Any]]):
            known = found.setdefault(row["vhost"], row)
            if known is not row:
                known["queues"] += row["queues"]
                known["streams"] += row["streams"]
        after = page["next"]
        if not after:
            return list(found.values())


@store.command()
@located
def compact(data: str, config_path: str, form: str) -> None:
    """Give back the room of messages that are gone, as far as compaction would in time.

    It may be interrupted at any moment. Segments of which more than half counts stay as they are.
    """
    stores = _stores(data, config_path)
    rows = []
    with taken(stores.path):
        for one in _listed(stores):
            if not one.is_known:
                continue
            done = _done(one, stores.compact)
            rows.append(
                {
                    "vhost": one.vhost,
                    "before_bytes": done.before_bytes,
                    "after_bytes": done.after_bytes,
                    "unreadable_segments": list(done.damaged),
                }
            )
            if form != "json":
                _say_compacted(one, done.before_bytes, done.after_bytes, done.damaged)
    if form == "json":
        print_json({"vhosts": rows})
    sys.exit(1 if any(row["unreadable_segments"] for row in rows) else 0)


@store.command()
@located
def mend(data: str, config_path: str, form: str) -> None:
    """Take rows out of the catalogue that do not fit their checksums, and keep a copy of it.

    A queue among them ends with its messages at the next start: copy the data directory before.
    """
    path = _stores(data, config_path).path
    with taken(path):
        try:
            copy, rows = mend_catalogue(path)
        except OSError as error:
            raise OperatorError(f"cannot mend {path}: {error.strerror or error}") from error
    if form == "json":
        print_json({"copy": str(copy), "rows": rows})
    elif not rows:
        say(console(), f"all rows of {copy} fit their checksums; nothing was changed")
    else:
        for row in rows:
            say(console(), f" ✘ taken out: {row}")
        say(console(), f"the catalogue as it was is {copy}; the broker can be started")


# -- where -----------------------------------------------------------------------------------------


def _stores(data: str, config_path: str) -> OfflineStores:
    segment_bytes = STORE_SEGMENT_BYTES.default
    if config_path:
        config = read_config(config_path)
        data = data or config.data_dir
        segment_bytes = config.store_segment_bytes
    return OfflineStores(Path(data or DATA_DIR), segment_bytes)


def _listed(found: OfflineStores) -> list[OneStore]:
    try:
        return found.stores()
    except OSError as error:
        raise OperatorError(f"cannot read {found.path}: {error.strerror or error}") from error


def _done(one: OneStore, work: Callable[[OneStore], T]) -> T:
    try:
        return work(one)
    except OSError as error:
        raise OperatorError(
            f"{one.path}: {error.strerror or error}; nothing that was there is lost by it"
        ) from error


# -- what is said ----------------------------------------------------------------------------------


def _say_check(
    results: list[tuple[OneStore, Findings]], fault: str, limit: int, seconds: float
) -> None:
    screen = console()
    if fault:
        say(screen, f" ✘ catalogue: {fault}", RED)
        say(screen, "   which queue a record is of cannot be told without it", RED)
    # Damage first: the notes may be many.
    shown = [
        (one, finding)
        for is_damage in (True, False)
        for one, result in results
        for finding in result.kept
        if finding.is_damage == is_damage
    ]
    for one, finding in shown[:limit]:
        mark, style = (" ✘ ", RED) if finding.is_damage else (" ! ", "")
        say(screen, mark + _finding_text(one, finding, fault), style)
    total = sum(result.damage_count + result.note_count for _, result in results)
    if total > limit:
        say(screen, more(total - min(limit, len(shown)), "findings"))
    damage = sum(result.damage_count for _, result in results)
    lost = sum(result.lost_count for _, result in results)
    records = sum(result.record_count for _, result in results)
    read_bytes = sum(result.byte_count for _, result in results)
    segments = sum(result.segment_count for _, result in results)
    verdict = "nothing is damaged"
    if damage or fault:
        least = "at least " if fault else ""
        verdict = f"{damage + (fault != '')} damaged, {least}{lost} messages lost"
    say(
        screen,
        f"read {records:,} records in {segments} segments of {len(results)} virtual host(s), "
        f"{size(read_bytes)}, in {seconds:.2f} s: {verdict}",
    )


def _finding_text(one: OneStore, finding: Finding, fault: str) -> str:
    place = f"vhost {one.vhost}: {finding.file}"
    if finding.offset >= 0:
        place += f" at {finding.offset}"
    of = ""
    if finding.queue_id:
        name = one.names.get(finding.queue_id)
        deleted = "" if fault else "deleted "
        of = f" (queue {name}" if name else f" ({deleted}queue number {finding.queue_id}"
        of += f", position {finding.position}"
        of += ": a message is lost)" if finding.is_lost else ")"
    return f"{place}: {finding.text}{of}"


def _check_json(results: list[tuple[OneStore, Findings]], fault: str) -> dict[str, object]:
    return {
        "catalogue": fault,
        "vhosts": [
            {
                "vhost": one.vhost,
                "segments": result.segment_count,
                "records": result.record_count,
                "bytes": result.byte_count,
                "damaged": result.damage_count,
                "notes": result.note_count,
                "lost": result.lost_count,
                "findings": [
                    {
                        "is_damage": each.is_damage,
                        "file": each.file,
                        "offset": each.offset,
                        "queue": one.names.get(each.queue_id, ""),
                        "queue_id": each.queue_id,
                        "position": each.position,
                        "is_lost": each.is_lost,
                        "text": each.text,
                    }
                    for each in result.kept
                ],
            }
            for one, result in results
        ],
    }


COLUMNS: Final = columns(
    "vhost:name queue:name messages:number live:number:3 on_disk:number garbage:number:2 "
    "segments:number:1 oldest:number:4"
)


def _say_stats(rows: list[dict[str, object]]) -> None:
    screen = console()
    if not rows:
        say(screen, "nothing is kept on disk")
        return
    lines: list[tuple[str, ...]] = []
    for row in rows:
        lines.append(_line(row, str(row["vhost"]), "(all files)"))
        if row.get("spare_bytes"):
            lines.append(_spares(row))
        queues = row["queues"]
        assert isinstance(queues, list), "a row has its queues"
        for one in sorted(queues, key=lambda one: -int(one["live_bytes"])):
            if one["disk_bytes"]:
                lines.append(_line(one, str(row["vhost"]), str(one["queue"])))
        streams = row.get("streams", [])
        assert isinstance(streams, list), "a row has its streams"
        for one in sorted(streams, key=lambda one: -int(one["disk_bytes"])):
            # All of a stream counts as long as it is there.
            whole = one | {"live_bytes": one["disk_bytes"]}
            lines.append(_line(whole, str(row["vhost"]), f"{one['stream']} (stream)"))
    show(screen, table(COLUMNS, lines))


def _line(row: dict[str, object], vhost: str, queue: str) -> tuple[str, ...]:
    live, on_disk = int(str(row["live_bytes"])), int(str(row["disk_bytes"]))
    garbage = max(0.0, 1 - live / on_disk) if on_disk else 0.0
    oldest_ms = int(str(row.get("oldest_ms", 0)))
    return (
        vhost,
        queue,
        f"{row['messages']:,}",
        size(live),
        size(on_disk),
        f"{garbage:.0%}",
        str(row["segments"]),
        _age(oldest_ms) if oldest_ms else "-",
    )


def _spares(row: dict[str, object]) -> tuple[str, ...]:
    """Files that are only there to be written over."""
    taken = size(int(str(row["spare_bytes"])))
    return (str(row["vhost"]), "(files to be used again)", "-", "-", taken, "-", "-", "-")


def _age(since_ms: int) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = max(0, int(time.time()) - since_ms // MS_PER_S)
    for length, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"


def _say_compacted(one: OneStore, before: int, after: int, damaged: tuple[int, ...]) -> None:
    screen = console()
    say(screen, f"vhost {one.vhost}: {size(before)} before, {size(after)} after")
    for number in damaged:
        say(
            screen,
            f" ✘ segment {number} could not be read whole and was left alone: "
            "penstock store check says what is wrong",
            RED,
        )
