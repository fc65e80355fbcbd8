"""The figures of many runs together."""

from penstock.simulation.cluster.world import ClusterReport


class ClusterTotal:
    """What came of all runs so far."""

    def __init__(self) -> None:
        self.runs = 0
        self.failures = 0
        self.slowest = ClusterReport(0)
        self._sums: dict[str, int] = {}
        self._troubles: dict[str, int] = {}

    def add(self, report: ClusterReport) -> None:
        """One more run that held."""
        self.runs += 1
        if report.healed_ms >= self.slowest.healed_ms:
            self.slowest = report
        for name in ("steps", "frames", "entries", "confirms", "leaders", "resyncs", "virtual_ms"):
            self._sums[name] = self._sums.get(name, 0) + int(getattr(report, name))
        for name, count in report.troubles.items():
            self._troubles[name] = self._troubles.get(name, 0) + count

    def text(self, seconds: float) -> str:
        """For a person."""
        sums = self._sums
        parts = [f"{name} {count}" for name, count in sorted(self._troubles.items())]
        return (
            f"{self.runs} clusters held, {self.failures} failed, in {seconds:.0f} s: "
            f"{sums.get('virtual_ms', 0) / 3_600_000:.1f} virtual hours, "
            f"{sums.get('steps', 0)} steps, {sums.get('frames', 0)} frames, "
            f"{sums.get('entries', 0)} entries confirmed, {sums.get('leaders', 0)} leaders, "
            f"{sums.get('resyncs', 0)} copies; well again after {self.slowest.healed_ms} ms at "
            f"most (seed {self.slowest.seed})\ntrouble: {', '.join(parts)}"
        )
