"""Options of our own, which pytest reads here before it reads its command line; and what tests of several folders share.

A test that needs an engine starts it, or takes the fixture with its name: ``etcd``, ``zookeeper``, ``consul``,
``kubernetes``, ``postgresql``, ``mariadb`` or ``redis``. If the engine is not on this machine, the test is skipped, and the
end of the run says so with the command that installs it. Where CI=true it fails instead: a build server that quietly tests
less than it should is worse than none. There both the old and the newest version of etcd and of ZooKeeper have to be.
"""

import os
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
import pytest
from hypothesis import settings

from tenure.testing.engines import (
    Binary,
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MariaDbCluster,
    MissingEngine,
    PostgresCluster,
    RedisCluster,
    ZooKeeperEnsemble,
    installed,
)
from tenure.testing.engines.binaries import PACKAGES
from tenure.testing.engines.cluster import Cluster
from tests.chaos.results import shown
from tests.sharing import CLUSTERS, TICK_MS, group_of, name_of, shared_by, turn_of

# No example has a time limit: a machine that stands still for a moment is no counterexample.
settings.register_profile("patient", settings(), deadline=None)
settings.load_profile("patient")

_MISSING = "ENGINE MISSING: "
# The newest, which is built, and the oldest that we promise to work with.
LINES = {"etcd": ("3.7", "3.4"), "zookeeper": ("3.9", "3.8")}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the candidate really does into tests/scripts/*.txt; read the difference before you commit it",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """With ``--dist loadgroup``, which ``make test`` says, one worker is given all tests that share a cluster."""
    for item in items:
        group = group_of(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    yield  # Now xdist looks for the marks, and pytest sorts by parameters of fixtures.
    items.sort(key=turn_of)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    CLUSTERS.end_all_but(frozenset() if nextitem is None else shared_by(nextitem))


def pytest_sessionfinish() -> None:
    CLUSTERS.end_all_but(frozenset())  # Also if the run was interrupted, in the middle of a test.


@pytest.fixture(params=["asyncio", "trio"])
def on(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run an async test on asyncio and on trio."""

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with anyio.fail_after(30):
                await test()

        anyio.run(bounded, backend=request.param)

    return run


@dataclass(frozen=True)
class Absent:
    """A version that a build server must have, and this one has not."""

    engine: str
    line: str

    def __str__(self) -> str:
        return f"{self.engine}-{self.line}"


def versions(engine: str) -> list[Binary | Absent | None]:
    """What a test that runs on each version is parametrised with. None, if there is none: a cluster of it says what is missing.

    An empty list will not do. pytest would leave out the test, and nobody would hear of it. The same goes for one version of
    two, so where CI=true the tests of a version that is not there are run, and fail.
    """
    found = installed(engine)
    lines = LINES[engine] if _on_a_build_server() else ()
    absent = [line for line in lines if not any(binary.version.startswith(f"{line}.") for binary in found)]
    return [*found, *(Absent(engine, line) for line in absent)] or [None]


def _on_a_build_server() -> bool:
    return os.environ.get("CI") == "true"


def _present(binary: Binary | Absent | None) -> Binary | None:
    if isinstance(binary, Absent):
        packages = " ".join(PACKAGES[binary.engine])
        fix = f"make engines builds the newest, and apt-get install -y {packages} has the old one in Debian 12"
        raise MissingEngine(str(binary), fix)
    return binary


@pytest.fixture(scope="session", params=versions("etcd"), ids=lambda binary: str(binary or "etcd"))
def etcd_binary(request: pytest.FixtureRequest) -> Binary | None:
    """Each etcd on this machine."""
    return _present(request.param)


@pytest.fixture(scope="session", params=versions("zookeeper"), ids=lambda binary: str(binary or "zookeeper"))
def zookeeper_binary(request: pytest.FixtureRequest) -> Binary | None:
    """Each ZooKeeper on this machine."""
    return _present(request.param)


@pytest.fixture
def etcd(etcd_binary: Binary | None) -> EtcdCluster:
    """Three nodes that tests share. Whoever kills one starts it again."""
    return CLUSTERS.take(name_of("etcd", etcd_binary), lambda: EtcdCluster(binary=etcd_binary))


@pytest.fixture
def zookeeper(zookeeper_binary: Binary | None) -> ZooKeeperEnsemble:
    """Three nodes that tests share, with short ticks so that sessions may be short. Whoever kills one starts it again."""
    name = name_of("zookeeper", zookeeper_binary)
    return CLUSTERS.take(name, lambda: ZooKeeperEnsemble(binary=zookeeper_binary, tick_ms=TICK_MS))


@pytest.fixture
def consul() -> ConsulCluster:
    """Three servers that tests share, with sessions that may be short. Whoever kills one starts it again."""
    return CLUSTERS.take("consul", lambda: ConsulCluster(session_ttl_min_s=1))


@pytest.fixture
def kubernetes() -> KubernetesCluster:
    """An API server over three nodes of etcd that tests share. Whoever kills one of them starts it again."""
    return CLUSTERS.take("kubernetes", KubernetesCluster)


@pytest.fixture
def postgresql() -> PostgresCluster:
    """One server that tests share. Whoever kills it starts it again."""
    return CLUSTERS.take("postgresql", PostgresCluster)


@pytest.fixture
def mariadb() -> MariaDbCluster:
    """One server that tests share. Whoever kills it starts it again."""
    return CLUSTERS.take("mariadb", MariaDbCluster)


@pytest.fixture
def redis() -> RedisCluster:
    """One server that tests share. Whoever kills it starts it again."""
    return CLUSTERS.take("redis", RedisCluster)


@contextmanager
def _missing_is_a_skip() -> Iterator[None]:
    try:
        yield
    except MissingEngine as error:
        if _on_a_build_server():
            raise
        pytest.skip(f"{_MISSING}{error}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None]:
    with _missing_is_a_skip():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None]:
    with _missing_is_a_skip():
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A shared cluster does not see how a test ended, so it is told to keep its logs, and the report where they are."""
    report = yield
    if report.failed:
        for cluster in vars(item).get("funcargs", {}).values():
            if isinstance(cluster, Cluster):
                cluster.keep()
                report.sections.append((str(cluster.binary), f"data and logs are kept in {cluster.folder}"))
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    missing = Counter(reason.partition(_MISSING)[2].rstrip("')") for reason in reasons if _MISSING in reason)
    if missing:
        terminalreporter.section("engines are missing", red=True, bold=True)
    for what, count in sorted(missing.items()):
        terminalreporter.line(f"{count} tests were NOT RUN: {what}")
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, ())]
    for line in shown(found for report in reports for found in report.user_properties):
        terminalreporter.line(line)
