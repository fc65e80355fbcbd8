"""Three nodes and an etcd as processes, shared by the tests of a file."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.base.errors import OperatorError
from penstock.demo.cluster_rig import ClusterRig, find_etcd
from tests.conformance.live import free_port


@pytest.fixture
def folder() -> Iterator[Path]:
    """Short enough for the paths of Unix sockets below it."""
    made = Path(tempfile.mkdtemp(prefix="penstock-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="module")
def rig() -> Iterator[ClusterRig]:
    """A cluster in which every node votes. Tests leave it so."""
    try:
        find_etcd("")
    except OperatorError as error:
        pytest.skip(str(error))
    folder = Path(tempfile.mkdtemp(prefix="penstock-"))
    made = ClusterRig(folder, port=free_port)
    try:
        made.start_etcd()
        for name in made.nodes:
            made.start(name)
        made.await_serving()
        made.await_whole()
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
