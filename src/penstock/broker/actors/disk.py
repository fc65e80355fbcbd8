"""What the broker asks of a disk: jobs done one after the other, somewhere else, and their ends."""

from mypy_extensions import mypyc_attr

from penstock.storage.log.job import Job


@mypyc_attr(allow_interpreted_subclasses=True)
class JobClient:
    """Who hears of a job's end. Nominal base."""

    __slots__ = ()

    def job_done(self, job: Job, error: OSError | None) -> None:
        """`job` has run to its end, or failed with `error`. Called between two turns."""
        raise NotImplementedError


@mypyc_attr(allow_interpreted_subclasses=True)
class Disk:
    """Runs jobs in the order they were given. Nominal base of the server's thread and of stand-ins.

    Bound: two batches of every store, one read of every queue, and one change of the catalogue."""

    __slots__ = ()

    def submit(self, job: Job, client: JobClient) -> None:
        """Run `job` after those given before; `client` is told when it has ended."""
        raise NotImplementedError

    def keeps_publishes(self) -> bool:
        """Whether jobs are to be told which publishes they hold (`Job.holds`)."""
        return False

    def needs(self) -> int:
        """While the end of a job is told: the number of the entry of a cluster's log with which all
        it did is written, 0 where there is no such log."""
        return 0
