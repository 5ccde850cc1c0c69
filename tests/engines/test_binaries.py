"""Which engines are found; and what a test run says about those that are not."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.testing.engines import ConsulCluster, EtcdCluster, MissingEngine, ZooKeeperEnsemble, installed
from tenure.testing.engines.binaries import built_from
from tests.conftest import LINES

ROOT = Path(__file__).parents[2]


@pytest.fixture
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without etcd, and with a cache folder of its own, which is returned."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tenure" / "engines"


def put_program(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_versions_are_found_where_they_are_built_and_in_the_path_with_the_newest_first(
    empty_machine: Path, tmp_path: Path
) -> None:
    put_program(tmp_path / "bin" / "etcd", "echo 'etcd Version: 3.5.16'; echo 'Git SHA: f20bbad'")
    put_program(tmp_path / "bin" / "etcdctl")
    put_program(empty_machine / "etcd-3.10.0" / "etcd")
    put_program(empty_machine / "etcd-3.9.1" / "etcd")
    assert [binary.version for binary in installed("etcd")] == ["3.10.0", "3.9.1", "3.5.16"]
    assert installed("etcd")[0].program == str(empty_machine / "etcd-3.10.0" / "etcd")
    assert installed("etcd")[2].tool == str(tmp_path / "bin" / "etcdctl")


def test_what_is_half_built_is_not_found(empty_machine: Path) -> None:
    put_program(empty_machine / ".building-x" / "etcd-3.7.3" / "etcd")
    (empty_machine / "etcd-3.8.0").mkdir()
    assert installed("etcd") == []


@pytest.mark.usefixtures("empty_machine")
def test_an_engine_that_is_missing_is_told_of_with_the_command_that_installs_it() -> None:
    with pytest.raises(MissingEngine) as caught, EtcdCluster():
        pass
    assert str(caught.value) == (
        "etcd is missing: apt-get install -y etcd-server etcd-client, or make engines in a clone of tenure"
    )


@pytest.mark.usefixtures("empty_machine")
def test_an_engine_that_no_package_manager_has_is_told_of_with_the_command_that_builds_it() -> None:
    with pytest.raises(MissingEngine) as caught, ConsulCluster():
        pass
    assert str(caught.value) == "consul is missing: make engines in a clone of tenure"


@pytest.mark.parametrize(
    ("engine", "program", "tool"),
    [
        ("consul", "consul", "consul"),
        ("kubernetes", "kube-apiserver", "kubectl"),
        ("versitygw", "versitygw", "versitygw"),
    ],
)
def test_an_engine_is_found_with_its_command_line(empty_machine: Path, engine: str, program: str, tool: str) -> None:
    folder = empty_machine / f"{engine}-2.0.0"
    put_program(folder / program)
    put_program(empty_machine.parents[1] / "bin" / program, "echo 'It is v1.36.3'")
    built, packaged = installed(engine)
    assert (built.version, built.program, built.tool) == ("2.0.0", str(folder / program), str(folder / tool))
    assert (packaged.version, packaged.program.rpartition("/")[2]) == ("1.36.3", program)


@pytest.mark.usefixtures("empty_machine")
def test_a_zookeeper_without_java_is_told_of() -> None:
    with (
        pytest.raises(MissingEngine, match=r"^(Java is missing: apt-get install|zookeeper is missing)"),
        ZooKeeperEnsemble(1),
    ):
        pass


def test_an_engine_that_we_do_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match="engine = raft: must be one of etcd, consul, kubernetes, "):
        installed("raft")


def test_other_sources_are_built_into_another_folder(tmp_path: Path) -> None:
    sources = tmp_path / "peers" / "go"
    (sources / "sub").mkdir(parents=True)
    (sources / "sub" / "main.go").write_text("package main")
    first = built_from(sources)
    assert re.fullmatch(r"peers-go-[0-9a-f]{16}", first.name)
    assert built_from(sources) == first
    (sources / "sub" / "main.go").write_text("package other")
    assert built_from(sources) != first


def run_tests(tmp_path: Path, test: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a test under the conftest of our own tests."""
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(f"from tenure.testing.engines import EtcdCluster\nimport pytest\n{test}")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "-q", "."]
    width = {"COLUMNS": "200"}  # or pytest cuts its lines to what it takes for a terminal
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **width, **environment}, capture_output=True, text=True, check=False
    )


NEEDS_ETCD = "def test_needs_etcd():\n    with EtcdCluster(1): pass\n"


def test_a_run_without_an_engine_skips_its_tests_and_says_so_loudly(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, NEEDS_ETCD, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CI="")
    assert answer.returncode == 0, answer.stdout
    assert "1 skipped" in answer.stdout
    assert "engines are missing" in answer.stdout
    command = "apt-get install -y etcd-server etcd-client, or make engines in a clone of tenure"
    assert f"1 tests were NOT RUN: etcd is missing: {command}\n" in answer.stdout


def test_a_run_without_an_engine_fails_on_a_build_server(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, NEEDS_ETCD, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CI="true")
    assert answer.returncode == 1, answer.stdout
    assert "1 failed" in answer.stdout
    assert "MissingEngine: etcd is missing" in answer.stdout


def test_a_run_on_each_version_is_not_quietly_empty_where_there_is_none(tmp_path: Path) -> None:
    test = "def test_on_each(etcd_binary):\n    with EtcdCluster(1, binary=etcd_binary): pass\n"
    answer = run_tests(tmp_path, test, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CI="")
    assert "1 tests were NOT RUN: etcd is missing" in answer.stdout


@pytest.mark.parametrize(
    ("versions", "absent"),
    [
        (["3.7.3", "3.4.23"], []),
        (["3.7.3"], ["etcd-3.4"]),
        (["3.4.23"], ["etcd-3.7"]),
        (["3.70.0", "3.40.0"], ["etcd-3.7", "etcd-3.4"]),
        ([], ["etcd-3.7", "etcd-3.4"]),
    ],
    ids=["both", "newest", "old", "others", "none"],
)
def test_a_build_server_fails_on_each_version_that_it_should_have_and_has_not(
    tmp_path: Path, versions: list[str], absent: list[str]
) -> None:
    for version in versions:
        put_program(tmp_path / "tenure" / "engines" / f"etcd-{version}" / "etcd")
    test = "def test_on_each(etcd_binary):\n    assert etcd_binary is not None\n"
    answer = run_tests(tmp_path, test, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CI="true")
    assert re.findall(r"^ERROR \S+test_on_each\[(\S+)\]", answer.stdout, re.MULTILINE) == absent
    assert re.findall(r"^E .*MissingEngine: (\S+) is missing: make engines", answer.stdout, re.MULTILINE) == absent
    assert (answer.returncode != 0) == bool(absent)
    assert ("passed" in answer.stdout) == bool(versions)


def test_a_laptop_with_one_version_is_content_with_it(tmp_path: Path) -> None:
    put_program(tmp_path / "tenure" / "engines" / "etcd-3.7.3" / "etcd")
    test = "def test_on_each(etcd_binary):\n    assert etcd_binary.version == '3.7.3'\n"
    answer = run_tests(tmp_path, test, PATH=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), CI="")
    assert answer.returncode == 0, answer.stdout
    assert "1 passed" in answer.stdout


def test_the_newest_versions_that_a_build_server_must_have_are_those_that_are_built() -> None:
    pins = {
        "etcd": ("etcd/go.mod", r"go.etcd.io/etcd/server/v3 v(\d+\.\d+)\."),
        "zookeeper": ("zookeeper/pom.xml", r"<artifactId>zookeeper</artifactId>\s*<version>(\d+\.\d+)\."),
    }
    for engine, (file, pattern) in pins.items():
        pinned = re.search(pattern, (ROOT / "engines" / file).read_text())
        assert pinned is not None
        assert pinned[1] == LINES[engine][0]


def test_a_test_that_fails_says_where_the_logs_of_its_shared_cluster_are(tmp_path: Path) -> None:
    shared = "@pytest.fixture\ndef shared():\n    with EtcdCluster(1) as cluster: yield cluster\n"
    answer = run_tests(tmp_path, f"{shared}def test_fails(shared):\n    assert shared is None\n", TMPDIR=str(tmp_path))
    assert "1 failed" in answer.stdout
    told = re.search(r"data and logs are kept in (\S+)", answer.stdout)
    assert told is not None, answer.stdout
    assert (Path(told[1]) / "n1" / "log").stat().st_size > 0


SHARES = """
from pathlib import Path
seen = []
def test_first(etcd):
    seen.append([node.pid for node in etcd.nodes])
def test_second(etcd):
    assert [node.pid for node in etcd.nodes] == seen[-1]
def test_third():
    assert seen
    assert not [pid for pids in seen for pid in pids if Path(f"/proc/{pid}").exists()]
"""


def test_a_shared_cluster_is_there_for_those_who_use_it_and_no_longer(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, SHARES, TMPDIR=str(tmp_path))
    assert answer.returncode == 0, answer.stdout
    assert f"{2 * len(installed('etcd')) + 1} passed" in answer.stdout


def test_a_run_that_is_interrupted_leaves_nothing_of_its_shared_cluster(tmp_path: Path) -> None:
    answer = run_tests(tmp_path, "def test_it(etcd):\n    raise KeyboardInterrupt\n", TMPDIR=str(tmp_path))
    assert "KeyboardInterrupt" in answer.stdout
    assert list(tmp_path.glob("tenure-etcd-*")) == []
