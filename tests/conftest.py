"""Options of our own, which pytest reads here before it reads its command line; and what tests of several folders share.

A test that needs an engine starts it, or takes the fixture with its name: ``etcd``, ``zookeeper``, ``consul`` or
``kubernetes``. If the engine is not on this machine, the test is skipped, and the end of the run says so with the command
that installs it. Where CI=true it fails instead: a build server that quietly tests less than it should is worse than none.
"""

import os
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager

import anyio
import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

from tenure.testing.engines import (
    Binary,
    ConsulCluster,
    EtcdCluster,
    KubernetesCluster,
    MissingEngine,
    ZooKeeperEnsemble,
    installed,
)
from tenure.testing.engines.cluster import Cluster

_MISSING = "ENGINE MISSING: "
# Where tests share clusters: those on one version of an engine within a folder, or those of a file that has its own.
_FOLDERS = ("clients/etcd", "consul", "engines", "etcd", "kubernetes", "peers", "zookeeper")
_VERSION = re.compile(r"(etcd|zookeeper|consul)-\d[\d.]*")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what the candidate really does into tests/scripts/*.txt; read the difference before you commit it",
    )


class ByCluster(LoadScopeScheduling):  # type: ignore[misc]
    """Gives tests that share a cluster to one worker, which starts it once; the most numerous first, all others singly."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, test = nodeid.partition("::")
        folder = file.rpartition("/")[0]
        if folder.removeprefix("tests/") not in _FOLDERS:
            return nodeid
        version = _VERSION.search(test)
        return f"{folder} {version[0]}" if version else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByCluster:
    return ByCluster(config, log)


@pytest.fixture(params=["asyncio", "trio"])
def on(request: pytest.FixtureRequest) -> Callable[[Callable[[], Awaitable[None]]], None]:
    """Run an async test on asyncio and on trio."""

    def run(test: Callable[[], Awaitable[None]]) -> None:
        async def bounded() -> None:
            with anyio.fail_after(30):
                await test()

        anyio.run(bounded, backend=request.param)

    return run


def versions(engine: str) -> list[Binary | None]:
    """What a test that runs on each version is parametrised with. None, if there is none: a cluster of it says what is missing.

    An empty list will not do. pytest would leave out the test, and nobody would hear of it.
    """
    return [*installed(engine)] or [None]


@pytest.fixture(scope="session", params=versions("etcd"), ids=lambda binary: str(binary or "etcd"))
def etcd_binary(request: pytest.FixtureRequest) -> Binary | None:
    """Each etcd on this machine."""
    binary: Binary | None = request.param
    return binary


@pytest.fixture(scope="session", params=versions("zookeeper"), ids=lambda binary: str(binary or "zookeeper"))
def zookeeper_binary(request: pytest.FixtureRequest) -> Binary | None:
    """Each ZooKeeper on this machine."""
    binary: Binary | None = request.param
    return binary


@pytest.fixture(scope="session")
def etcd(etcd_binary: Binary | None) -> Iterator[EtcdCluster]:
    """Three nodes that tests share. Whoever kills one starts it again."""
    with EtcdCluster(binary=etcd_binary) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def zookeeper(zookeeper_binary: Binary | None) -> Iterator[ZooKeeperEnsemble]:
    """Three nodes that tests share, with short ticks so that sessions may be short. Whoever kills one starts it again."""
    with ZooKeeperEnsemble(binary=zookeeper_binary, tick_ms=200) as ensemble:
        yield ensemble


@pytest.fixture(scope="session")
def consul() -> Iterator[ConsulCluster]:
    """Three servers that tests share, with sessions that may be short. Whoever kills one starts it again."""
    with ConsulCluster(session_ttl_min_s=1) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubernetes() -> Iterator[KubernetesCluster]:
    """An API server over three nodes of etcd that tests share. Whoever kills one of them starts it again."""
    with KubernetesCluster() as cluster:
        yield cluster


@contextmanager
def _missing_is_a_skip() -> Iterator[None]:
    try:
        yield
    except MissingEngine as error:
        if os.environ.get("CI") == "true":
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
