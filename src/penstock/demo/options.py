"""What `penstock run` can be asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RunOptions:
    """port: 0..65535, 0 for any free one. duration_scale: 0.1..10, factor on the length of every
    phase. with_spark: False analyses in plain Python. keep_events: keep events and traces beside
    the report. report_dir: made if missing. seed: of message bodies. url: drive this broker instead
    of starting one, "" to start one; there are no flow events then."""

    port: int = 0
    duration_scale: float = 1.0
    with_spark: bool = True
    keep_events: bool = False
    report_dir: Path = Path("penstock-report")
    seed: int = 1
    url: str = ""
