"""Where events come from, as far as no Spark is needed to say it: a directory, or a stream."""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from penstock.base.errors import OperatorError
from penstock.spark.schema.formats import (
    FILES,
    RunDescription,
    input_files,
    read_brokers,
    read_run,
)

NAME_CHARACTERS: Final = 24
"""Of a directory that stand in the name of its query."""


Offset = Mapping[str, Any]


class Span(NamedTuple):
    """What there is to read, in bytes of files or messages of a stream, as offsets of the query:
    from `begin` where nothing was read yet."""

    begin: Offset
    end: Offset

    def left(self, offset: Offset) -> int:
        """What lies behind `offset`, in bytes or messages."""
        return sum(
            max(0, int(end) - int(offset.get(name, self.begin.get(name, 0))))
            for name, end in self.end.items()
        )


class PipelineInput:
    """Where event lines come from. Nominal base."""

    def query(self) -> str:
        """The name of the query that reads it, whose checkpoint says how far. Raises:
        OperatorError."""
        raise NotImplementedError

    def span(self) -> Span:
        """What there is to read now, as offsets of that query. Raises: OperatorError."""
        raise NotImplementedError

    def run(self) -> RunDescription:
        """What the run says of itself."""
        return RunDescription()


class FileInput(PipelineInput):
    """A directory of event files and traces."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __str__(self) -> str:
        return str(self.directory.resolve())

    def query(self) -> str:
        """One a directory: what was read of it is known by the names of its files, and those of
        clients' traces are the same in all of them."""
        path = self.directory.resolve()
        name = re.sub(r"[^A-Za-z0-9]+", "-", path.name)[:NAME_CHARACTERS].strip("-") or "root"
        return f"files-{name}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"

    def span(self) -> Span:
        """In bytes."""
        paths = [path for one in FILES for path in input_files(self.directory, one)]
        return Span({}, {path.name: path.stat().st_size for path in paths})

    def run(self) -> RunDescription:
        return replace(read_run(self.directory), brokers=read_brokers(self.directory))


def as_inputs(places: Path | PipelineInput | Sequence[PipelineInput]) -> tuple[PipelineInput, ...]:
    """A directory is an input of files. Raises: OperatorError when one is there twice."""
    if isinstance(places, Path):
        places = FileInput(places)
    found = (places,) if isinstance(places, PipelineInput) else tuple(places)
    names = [str(one) for one in found]
    twice = next((name for name in names if names.count(name) > 1), "")
    if twice:
        raise OperatorError(f"{twice} is an input twice; give it once")
    return found


def run_of(places: Sequence[PipelineInput]) -> RunDescription:
    """What all of them say: phases are those of the first that has some, and of clients that have
    one address at several brokers of one node no name is known."""
    runs = [place.run() for place in places]
    if len(runs) == 1:
        return runs[0]
    main = next((run for run in runs if run.phases), runs[0])
    names_of: dict[str, dict[str, str]] = {}
    for run in runs:
        for node in {one.node for one in run.brokers}:
            names = names_of.setdefault(node, {})
            for address, name in run.names.items():
                names[address] = name if names.get(address, name) == name else ""
    brokers = sorted(
        (one for run in runs for one in run.brokers), key=lambda one: (one.wall_ns, one.boot_id)
    )
    facts = {
        (name if run is main else f"{name} ({place})"): value
        for place, run in zip(places, runs, strict=True)
        for name, value in run.facts.items()
    }
    return replace(
        main,
        names={},
        names_of={
            node: {address: name for address, name in names.items() if name}
            for node, names in names_of.items()
        },
        facts=facts,
        brokers=tuple(brokers),
    )
