"""What a session on a cluster needs and one on this machine does not: who reaches whom, and where.

The host name of a machine often is not the address under which a cluster reaches it (a laptop, a
container, a second network card). The address from which the master itself is reached is. Spark
would try a master that is not there for a minute and then stop with Java's words, and wait for ever
without a word for workers that are not there; both are asked for first.
"""

import os
import re
import socket
import time
from typing import Any, Final

from penstock.base.errors import OperatorError

CONNECT_S_MAX: Final = 5.0
EXECUTOR_S_MAX: Final = 60.0
LOOK_S: Final = 0.1
OWN_NAMES: Final = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
"""With them in the environment the user has told Spark how this machine is reached."""
_STANDALONE: Final = re.compile(r"spark://(.+)")
_ADDRESS: Final = re.compile(r"\[?([^\]]+?)\]?:(\d+)")


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
