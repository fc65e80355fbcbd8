"""One quiet Spark session with every setting that a fresh machine or a cluster needs.

On this machine: Python workers must be this Python and must find this package; the host name of a
laptop or a container often resolves to nothing, so the driver stays on 127.0.0.1; the web page of
Spark stays off; unix sockets save 40 ms a Python stage on loopback; the compiler stays at its first
level and the collector is serial, because a run of seconds never earns back more. One executor
thread a core, two at most: a local analysis should leave the machine usable.

On a cluster executors take what their workers give. The host name of a machine often is not the
address under which a cluster reaches it (a laptop, a container, a second network card); the address
from which the master is reached is. Spark would try an absent master for a minute and then stop
with Java's words, and wait for absent workers for ever; both are asked for first.
"""

import atexit
import functools
import logging
import os
import re
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pyspark
from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

import penstock
from penstock.base.errors import OperatorError
from penstock.spark.java import JavaHome
from penstock.spark.session.scratch import own_directory
from penstock.spark.session.watching import end_queries

CONNECT_S_MAX: Final = 5.0
EXECUTOR_S_MAX: Final = 60.0
LOOK_S: Final = 0.1
OWN_NAMES: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""With them in the environment the user has told Spark how this machine is reached."""
_STANDALONE: Final = re.compile(r"spark://(.+)")
_ADDRESS: Final = re.compile(r"\[?([^\]]+?)\]?:(\d{1,5})", re.ASCII)
CORES_MAX: Final = 2
HOME_PREFIX: Final = "penstock-spark-home-"
_until_exit: Final = ExitStack()
atexit.register(_until_exit.close)
DRIVER_MEMORY: Final = "1g"

_STREAMING: Final = "org.apache.spark.sql.execution.streaming" + (
    "" if pyspark.__version__.startswith("4.0.") else ".checkpointing"
)
LATENCY_SETTINGS: Final[dict[str, str]] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.FileSystemBasedCheckpointFileManager"
    ),
}
"""What halves a micro-batch: no delayed acknowledgements of TCP between Java and Python, which
Spark 4.0 cannot avoid, and checkpoint files without a process for each, which is for checkpoints on
a local disk."""

_SOCKET_PATH_BYTES_MAX: Final = 103
"""Of a Unix socket's path on macOS; Linux allows 107. Source: sys/un.h of both."""
_SOCKET_NAME_BYTES: Final = 43
"""Of a slash, a dot, a UUID and .sock: PySpark's name for a socket below a directory."""

KEPT_BYTES: Final = 512 << 20
WORKER_MEMORY: Final[dict[str, str]] = {
    "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": str(KEPT_BYTES),
    "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES),
    "spark.executorEnv.MIMALLOC_PURGE_DELAY": "-1",
}
"""Python workers keep the memory that a task has freed for the next one, that of numpy and that of
Arrow. Giving it back and taking it again cost a fifth of the processors' time of a backlog."""

FIRST_LEVEL: Final = "-XX:TieredStopAtLevel=1"
PYTHON_TASKS: Final[dict[str, bool | float | int | str | None]] = {
    # Before those options that spark-defaults.conf may have.
    "spark.executor.defaultJavaOptions": FIRST_LEVEL,
    "spark.sql.codegen.wholeStage": "false",
}
"""Where Java does little but hand blocks of rows to Python. Each executor compiles for itself, at
the higher levels for minutes, and driver and executors compile what Spark writes for each query."""

_SETTINGS: Final[dict[str, bool | float | int | str | None]] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": DRIVER_MEMORY,
    **LATENCY_SETTINGS,
    **WORKER_MEMORY,
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.log.level": "ERROR",
}

LOOPBACK_SETTINGS: Final = frozenset({"spark.driver.host", "spark.driver.bindAddress"})


def is_cluster(master: str) -> bool:
    """Whether `master`, as Spark names it, has executors in processes of other machines."""
    return master != "" and not master.startswith("local")


def network_settings(master: str) -> dict[str, str]:
    """Where a driver listens for the executors of the cluster `master`.

    Nothing for a cluster that is not Spark's own (YARN, Kubernetes): the host name, or what
    spark-defaults.conf says; nor where the environment has one of OWN_NAMES.
    Raises: OperatorError when no master can be reached.
    """
    found = _STANDALONE.fullmatch(master)
    if found is None:
        return {}
    own = address_towards(master, found[1])
    return {} if any(os.environ.get(name) for name in OWN_NAMES) else {"spark.driver.host": own}


def address_towards(master: str, hosts: str) -> str:
    """This machine's address as the first of `hosts` (HOST:PORT,...) sees it that answers.

    Raises: OperatorError when none does.
    """
    refusals: list[str] = []
    for host in hosts.split(","):
        address = _ADDRESS.fullmatch(host.strip())
        if address is None or int(address[2]) > 65_535:
            raise OperatorError(
                f"--master {master}: {host!r} is not HOST:PORT; Spark's own master is "
                "spark://HOST:PORT, usually with port 7077"
            )
        try:
            with socket.create_connection((address[1], int(address[2])), CONNECT_S_MAX) as reached:
                own: str = reached.getsockname()[0]
                return f"[{own}]" if ":" in own else own
        except OSError as fault:
            refusals.append(f"{host}: {fault.strerror or fault}")
        except UnicodeError as fault:
            # A name with an empty part, or one of more than 63 characters.
            refusals.append(f"{host}: no name of a host ({fault})")
    raise OperatorError(
        f"--master {master}: no master answers ({'; '.join(refusals)}); start one with "
        "`spark-class org.apache.spark.deploy.master.Master`, or leave --master out"
    )


def await_executor(context: Any, seconds: float = EXECUTOR_S_MAX) -> None:
    """Wait for the first executor of a SparkContext.

    Raises: OperatorError when there is none after `seconds`.
    """
    end_s = time.monotonic() + seconds
    # The driver itself is in the list too.
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:
        if time.monotonic() > end_s:
            raise OperatorError(
                f"{context.master} has given no executor for {seconds:g} s: it has no free worker, "
                "or its workers cannot start one, or cannot reach this machine. Its web page, and "
                "the stderr of the executors in the workers' directory, say which"
            )
        time.sleep(LOOK_S)


def was_interrupted(fault: BaseException | None) -> bool:
    """Whether `fault`, or what it was raised because of or while handling, is KeyboardInterrupt."""
    seen: set[int] = set()
    while fault is not None and id(fault) not in seen:
        if isinstance(fault, KeyboardInterrupt):
            return True
        seen.add(id(fault))
        fault = fault.__cause__ or fault.__context__
    return False


@contextmanager
def open_session(
    java: JavaHome, master: str = "", has_python_tasks: bool = False
) -> Iterator[SparkSession]:
    """A session that is stopped, with its JVM, when the block ends; queries that still run are
    stopped before it, between two batches (`end_queries`).

    master: where it runs, as Spark names it; "" for at most CORES_MAX cores of this machine. The
    machines of a cluster need the same Python (or PYSPARK_PYTHON names theirs), this package, and
    the same directories. has_python_tasks: what tasks do is done by Python, and Java moves blocks
    of rows, so that executors need no better code of it than the driver.
    Raises: OperatorError when the JVM does not start, or the cluster does not answer.
    """
    cores = min(CORES_MAX, os.cpu_count() or 1)
    os.environ["JAVA_HOME"] = java.home
    settings = _settings(master)
    if not (is_cluster(master) and os.environ.get("PYSPARK_PYTHON")):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    logging.getLogger("py4j").setLevel(logging.ERROR)
    with own_directory("penstock-spark-") as scratch:
        builder = (
            SparkSession.Builder()
            .master(master or f"local[{cores}]")
            .appName("penstock")
            .config(map=settings)
            .config("spark.sql.shuffle.partitions", str(cores))
            .config("spark.local.dir", str(scratch))
            .config("spark.sql.warehouse.dir", f"{scratch}/warehouse")
            .config("spark.executorEnv.PYTHONPATH", _package_root())
            .config("spark.driver.extraJavaOptions", _java_options(scratch))
        )
        if has_python_tasks:
            builder = builder.config(map=PYTHON_TASKS)
        if len(os.fsencode(scratch)) + _SOCKET_NAME_BYTES > _SOCKET_PATH_BYTES_MAX:
            # With a long TMPDIR the session would not start.
            builder = builder.config("spark.python.unix.domain.socket.enabled", "false")
        try:
            with _own_home():
                session = builder.getOrCreate()
        except Exception as fault:
            # PySpark raises its own and py4j's errors here, with the JVM's reason on stderr only.
            raise OperatorError(
                f"Spark did not start with Java {java.version} from {java.home}: {fault}; "
                "try another Java (JAVA_HOME)"
            ) from fault
        application = session.sparkContext.applicationId
        work = _work_of(session)
        session.sparkContext.setLogLevel("ERROR")
        leave_out_checksums(session)
        try:
            if is_cluster(master):
                await_executor(session.sparkContext)
                width = max(cores, session.sparkContext.defaultParallelism)
                session.conf.set("spark.sql.shuffle.partitions", str(width))
            yield session
        except Exception as fault:
            # The jobs that Ctrl-C has cancelled end with errors of their own.
            if was_interrupted(fault):
                raise KeyboardInterrupt from fault
            raise
        finally:
            # Nothing to stop where the signal has ended the JVM too, as that of a process group.
            with suppress(Py4JError, OSError):
                end_queries(session)
            with suppress(Py4JError, OSError):
                session.stop()
            if is_local_cluster(master):
                remove_work(work, application)


def is_local_cluster(master: str) -> bool:
    """Whether `master` and workers are in the driver's JVM, and executors are processes below."""
    return master.startswith("local-cluster")


@contextmanager
def _own_home() -> Iterator[None]:
    """A JVM that starts in this block has a SPARK_HOME of its own, another name of the same."""
    given = os.environ.get("SPARK_HOME")
    os.environ["SPARK_HOME"] = _linked_home(_find_spark_home())
    try:
        yield
    finally:
        if given is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = given


@functools.cache
def _linked_home(given: str) -> str:
    """A directory of this process's with links to everything that is in `given`, but for two. It is
    there until the process ends, as long as the JVM that knows it.

    `work` is its own: workers of `local-cluster` keep logs and files of their executors there, in
    the installed package as a rule, which may be read-only, or have another application's. They
    have no setting for that, and do not look at SPARK_WORKER_DIR.

    `python/lib/pyspark.zip` is a directory with the same modules. Python keeps nothing that it has
    compiled of a file in an archive, so each process that Spark starts would compile PySpark: 0.3 s
    of a processor, for some eight kinds of them.
    """
    home, own = Path(given).resolve(), _until_exit.enter_context(own_directory(HOME_PREFIX))
    _link_all(home, own, ("work", "python"))
    if (home / "python" / "lib").is_dir():
        _link_all(home / "python", own / "python", ("lib",))
        _link_all(home / "python" / "lib", own / "python" / "lib", ("pyspark.zip",))
        archive = own / "python" / "lib" / "pyspark.zip"
        # As pip installs it, and as it is in a distribution of Spark.
        packages = (home, home / "python" / "pyspark")
        found = next((one for one in packages if (one / "daemon.py").is_file()), None)
        if found is None:
            archive.symlink_to(home / "python" / "lib" / archive.name)
        else:
            archive.mkdir()
            (archive / "pyspark").symlink_to(found)
    return str(own)


def _link_all(directory: Path, own: Path, without: tuple[str, ...]) -> None:
    """Links in `own` to everything in `directory` but some names."""
    own.mkdir(exist_ok=True)
    for one in directory.iterdir():
        if one.name not in without:
            (own / one.name).symlink_to(one)


def _work_of(session: SparkSession) -> Path:
    """Where `local-cluster` keeps files of executors. A JVM that was there before `open_session`
    has its own SPARK_HOME, or none and its working directory."""
    jvm = session.sparkContext._jvm
    assert jvm is not None, "a session that runs has a JVM"
    home: str = jvm.System.getenv("SPARK_HOME") or "."
    return Path(home, "work")


def remove_work(work: Path, application: str) -> None:
    """Remove what executors of `application` have left below `work`."""
    shutil.rmtree(work / application, ignore_errors=True)
    with suppress(OSError):
        # Unless another application has something there.
        work.rmdir()


def leave_out_checksums(session: SparkSession) -> None:
    """Have this JVM write files on disks of its machine without the checksum that Hadoop puts into
    another file beside each.

    Hadoop starts a process, `chmod`, for every file it makes, and there are four of them in a
    micro-batch, two of which are checksums of some ten bytes; Spark refuses an offset that it
    cannot parse without their help.
    """
    jvm, java_context = session.sparkContext._jvm, session.sparkContext._jsc
    assert jvm is not None, "a session that runs has a JVM"
    local = jvm.org.apache.hadoop.fs.Path("file:///")
    # Hadoop has one object for the local disks, which everything in a JVM shares.
    local.getFileSystem(java_context.hadoopConfiguration()).setWriteChecksum(False)


def _settings(master: str) -> dict[str, bool | float | int | str | None]:
    """Others than this machine have to reach the driver."""
    if not is_cluster(master):
        return _SETTINGS
    kept = {name: value for name, value in _SETTINGS.items() if name not in LOOPBACK_SETTINGS}
    return {**kept, **network_settings(master)}


def _package_root() -> str:
    return str(Path(penstock.__file__).resolve().parent.parent)


def _java_options(scratch: Path) -> str:
    log_settings = scratch / "log4j2.properties"
    log_settings.write_text(
        "rootLogger.level = error\n"
        "rootLogger.appenderRef.stderr.ref = stderr\n"
        # Spark announces on stderr that it takes this logger's level, unless it is the root's.
        "logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer\n"
        "logger.gateway.level = error\n"
        "appender.stderr.type = Console\n"
        "appender.stderr.name = stderr\n"
        "appender.stderr.target = SYSTEM_ERR\n"
        "appender.stderr.layout.type = PatternLayout\n"
        # The exception goes to whoever waits for the query, with all of its lines.
        "appender.stderr.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex{5}\n",
        encoding="utf-8",
    )
    return (
        f"{FIRST_LEVEL} -XX:+UseSerialGC -Xshare:auto "
        f"-Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={log_settings.as_uri()}"
    )
