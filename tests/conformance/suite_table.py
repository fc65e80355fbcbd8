"""Which projects' own test suites are run: where each comes from, and what it needs.

A suite comes with the source distribution of the version that is installed, or, where that has no
tests or not all of them, from the project's repository at one commit. What it needs besides the
clients stays out of the environment of our own tests.
"""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Final, NamedTuple


class Commit(NamedTuple):
    """A state of a git repository; the hash is what makes it this one. number: for people."""

    url: str
    sha: str
    number: str


# Alone they take up to two minutes, beside other tests on two slow processors four times that.
RUN_S_MAX: Final = 600
TEST_S_MAX: Final = 280


@dataclass(frozen=True, slots=True)
class Suite:
    """One project's tests.

    distribution: whose source distribution has them, "" if they come from `commit`; targets: what
    to run inside; packages: what only they need, with exact versions; options: for pytest;
    environment: more variables, in which {url} stands for the broker's; run_s_max, test_s_max:
    seconds for all of it, and for one test; wants_docker: has a broker started in a container;
    wants_usual_port: believes that the broker is at port 5672; is_long: only runs when asked for.
    """

    name: str
    distribution: str
    targets: tuple[str, ...]
    run_s_max: int = RUN_S_MAX
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    commit: Commit | None = None
    test_s_max: int = TEST_S_MAX
    wants_docker: bool = False
    wants_usual_port: bool = False
    is_long: bool = False

    @property
    def version(self) -> str:
        """Of the project: what is installed, or what the commit belongs to."""
        return version(self.distribution) if self.commit is None else self.commit.number


AIOMISC: Final = (
    "aiomisc==18.0.37",
    "aiomisc-pytest==2.0.0",
    "aiothreads",
    "colorlog>=6,<7",
    "logging-journald",
    "shortuuid==1.0.13",
)
PYDANTIC: Final = (
    "annotated-types==0.8.0",
    "pydantic==2.14.3",
    "pydantic-core==2.50.4",
    "typing-inspection==0.4.5",
)
CELERY: Final = (
    *PYDANTIC,
    "cffi==2.1.1",
    "cryptography==50.0.2",
    "pycparser==3.12",
    "pytest-rerunfailures==16.7",
    "redis==8.1.0",
    "SQLAlchemy==2.1.9",
)
DRAMATIQ: Final = ("pylibmc==1.6.3", "redis==8.1.0")
FASTSTREAM: Final = (
    *PYDANTIC,
    "annotated-doc==0.0.7",
    "anyio==4.16.0",
    "certifi==2026.10.18",
    "dirty-equals==0.11",
    "fast-depends==3.0.9",
    "fastapi==0.140.0",
    "faststream==0.7.4",
    "freezegun==1.5.5",
    "h11==0.16.0",
    "httpcore==1.0.9",
    "httpx==0.28.1",
    "nats-py==2.16.0",
    "opentelemetry-api==1.45.2",
    "opentelemetry-sdk==1.45.2",
    "opentelemetry-semantic-conventions==0.66b2",
    "prometheus-client==0.26.0",
    "pydantic-settings==2.16.3",
    "pytest-asyncio==1.3.0",
    "pytest-rerunfailures==16.7",
    "pytest-timeout==2.4.0",
    "python-dotenv==1.2.4",
    "PyYAML==6.0.3",
    "shellingham==1.5.4",
    "starlette==1.10.0",
    "typer==0.27.1",
    "uvicorn==0.54.0",
)

RECONNECTING: Final = "tests/test_amqp_robust_proxy.py"
CELERY_ALL: Final = ("t/integration", "--ignore=t/integration/test_backend.py")
# What takes minutes, or waits for chords, which results through the broker cannot do, is left to
# the long run. It needs several times 280 s, mostly to wait.
CELERY_TASKS: Final = ("t/integration/test_tasks.py",)
CELERY_SHORT: Final = tuple(
    f"t/integration/test_{part}.py"
    for part in ("inspect", "loader", "security", "serialization", "worker")
)
LONG_S_MAX: Final = 3600


def celery(name: str, targets: tuple[str, ...], backend: str, run_s_max: int = RUN_S_MAX) -> Suite:
    """Celery's integration tests with results in `backend`."""
    return Suite(
        name,
        "celery",
        targets,
        run_s_max,
        CELERY,
        ("-p", "celery.contrib.pytest"),
        (("TEST_BROKER", "{url}"), ("TEST_BACKEND", backend)),
        is_long=run_s_max == LONG_S_MAX,
    )


SUITES: Final = {
    suite.name: suite
    for suite in (
        Suite("py-amqp", "amqp", ("t/integration/test_rmq.py",)),
        Suite("kombu", "kombu", ("t/integration/test_py_amqp.py",)),
        Suite("aiormq", "aiormq", ("tests",), RUN_S_MAX, AIOMISC),
        Suite(
            "aio-pika",
            "aio-pika",
            ("tests", f"--ignore={RECONNECTING}"),
            RUN_S_MAX,
            AIOMISC,
            wants_docker=True,
        ),
        # A suite of its own, because it mostly waits: for cut and stuck connections.
        Suite(
            "aio-pika-reconnecting",
            "aio-pika",
            (RECONNECTING,),
            RUN_S_MAX,
            AIOMISC,
            wants_docker=True,
        ),
        celery("celery", CELERY_SHORT, "rpc"),
        celery("celery-tasks", CELERY_TASKS, "rpc"),
        celery("celery-all", CELERY_ALL, "rpc", LONG_S_MAX),
        celery("celery-all-chords", CELERY_ALL, "file://{folder}", LONG_S_MAX),
        Suite(
            "dramatiq",
            "",
            ("tests/test_rabbitmq.py",),
            RUN_S_MAX,
            DRAMATIQ,
            # Without measuring what of dramatiq its tests cover.
            ("-o", "addopts="),
            commit=Commit(
                "https://github.com/Bogdanp/dramatiq",
                "848b35f2f960457ff54a72f9edb3af0de754f72f",
                "2.2.0",
            ),
            wants_usual_port=True,
        ),
        Suite(
            "faststream",
            "",
            tuple(
                f"tests/{part}/rabbit"
                for part in ("asgi", "brokers", "docs", "examples", "opentelemetry", "prometheus")
            ),
            RUN_S_MAX,
            FASTSTREAM,
            ("-m", "rabbit and connected"),
            commit=Commit(
                "https://github.com/ag2ai/faststream",
                "f080d35308997c77398feb43763fdb0e7074a255",
                "0.7.4",
            ),
            wants_usual_port=True,
        ),
    )
}
