"""Where events come from, as far as no Spark is needed to say it: a directory, or a stream."""

from dataclasses import replace
from pathlib import Path

from penstock.spark.input.span import Span
from penstock.spark.schema.formats import (
    FILES,
    RunDescription,
    input_files,
    read_brokers,
    read_run,
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
        return str(self.directory)

    def query(self) -> str:
        """One for all directories: what was read is known by the names of files."""
        return "files"

    def span(self) -> Span:
        """In bytes."""
        paths = [path for one in FILES for path in input_files(self.directory, one)]
        return Span({}, {path.name: path.stat().st_size for path in paths})

    def run(self) -> RunDescription:
        return replace(read_run(self.directory), brokers=read_brokers(self.directory))


def as_input(place: Path | PipelineInput) -> PipelineInput:
    """A directory is one of files."""
    return place if isinstance(place, PipelineInput) else FileInput(place)
