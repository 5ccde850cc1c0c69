"""The tools behind ``make engines`` and ``make test``, run with a Go, a Maven and an apt-get that only pretend."""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tenure.testing.engines.binaries import PACKAGES, TOOLS, built_from, packaged
from tenure.testing.engines.processes import wait_for

ROOT = Path(__file__).parents[2]
# Each writes down how it was called, and something into its caches and where its result belongs.
GO = """
echo "go $*" >> "$HOME/calls"
if [ "$1" = env ]; then printf '{"GOMODCACHE": "%s/go/mod", "GOCACHE": "%s/go/build"}' "$HOME" "$HOME"; exit 0; fi
while [ "$1" != -o ]; do shift; done
mkdir -p "${GOMODCACHE:-$HOME/go/mod}" "${GOCACHE:-$HOME/go/build}"
echo "$3" > "$2"
"""
MAVEN = """
echo "mvn $*" >> "$HOME/calls"
for argument in "$@"; do
  case "$argument" in
    -DoutputDirectory=*) touch "${argument#*=}/zookeeper.jar" ;;
    -Dbuild.folder=*) mkdir -p "${argument#*=}/lib" "${argument#*=}/classes"; touch "${argument#*=}/lib/peer.jar" ;;
    -Dmaven.repo.local=*) mkdir "${argument#*=}"; touch "${argument#*=}/cached" ;;
  esac
done
"""

# The servers whose program is not called like the engine.
PROGRAMS = {"postgresql": "postgres", "mariadb": "mariadbd", "redis": "redis-server"}


class Machine:
    """A machine with a home of its own, and the programs that are put on it."""

    def __init__(self, home: Path) -> None:
        self.home, self.bin, self.cache = home, home / "bin", home / "cache" / "tenure" / "engines"
        self.bin.mkdir()
        self.environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": f"{self.bin}:/bin"}

    def put(self, name: str, text: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{text}\n")
        (self.bin / name).chmod(0o755)

    @property
    def calls(self) -> list[str]:
        path = self.home / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def build(self) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(ROOT / "tools" / "build_engines.py")],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.put("go", GO)
    made.put("mvn", MAVEN)
    return made


def test_everything_is_built_once_and_the_caches_of_the_build_are_deleted(machine: Machine) -> None:
    with machine.build() as first:
        said, complaints = first.communicate()
    assert (first.returncode, complaints) == (0, "")
    assert sorted(path.name for path in machine.cache.glob("etcd-3.7.3/*")) == ["etcd", "etcdctl", "etcdutl"]
    assert (machine.cache / "etcd-3.7.3" / "etcdutl").read_text() == "go.etcd.io/etcd/etcdutl/v3\n"
    assert (machine.cache / "consul-1.22.7" / "consul").read_text() == "github.com/hashicorp/consul\n"
    assert sorted(path.name for path in machine.cache.glob("kubernetes-1.36.3/*")) == ["kube-apiserver", "kubectl"]
    gateway = machine.cache / "versitygw-1.8.0" / "versitygw"
    assert gateway.read_text() == "github.com/versity/versitygw/cmd/versitygw\n"
    peers = [machine.cache / built_from(ROOT / "tests" / "peers" / language).name for language in ("go", "java")]
    engines = {"etcd-3.7.3", "zookeeper-3.9.5", "consul-1.22.7", "kubernetes-1.36.3", "versitygw-1.8.0"}
    assert {path.name for path in machine.cache.iterdir()} == {".lock", *engines, *(peer.name for peer in peers)}
    programs = [sorted(path.name for path in peer.iterdir()) for peer in peers]
    assert programs == [["consul", "etcd", "kubernetes"], ["lib"]]
    assert not (machine.home / "go").exists()
    assert all(f"\n{engine.replace('-', ': ')}" in said for engine in engines)

    calls = machine.calls
    with machine.build() as second:
        said, _ = second.communicate()
    assert "building" not in said
    assert "etcd: 3.7.3" in said
    assert machine.calls == calls


def test_caches_that_were_there_before_are_used_and_kept(machine: Machine) -> None:
    for folder in ("go/mod", "go/build", ".m2/repository"):
        (machine.home / folder).mkdir(parents=True)
    with machine.build() as run:
        run.communicate()
    assert run.returncode == 0
    assert (machine.home / "go" / "mod").is_dir()
    assert not any("maven.repo.local" in call for call in machine.calls)


def test_without_a_tool_the_rest_is_built_and_it_says_what_that_means(machine: Machine) -> None:
    (machine.bin / "go").unlink()
    with machine.build() as run:
        _, complaints = run.communicate()
    assert run.returncode == 1
    first = complaints.splitlines()[0]
    assert first.startswith("*** etcd-3.7.3 is not built, so tests do not run on etcd-3.7.3: Go is missing: apt-get ")
    assert (machine.cache / "zookeeper-3.9.5").is_dir()
    assert not (machine.cache / "etcd-3.7.3").exists()


def test_a_build_that_fails_says_what_the_tool_said(machine: Machine) -> None:
    machine.put("mvn", "echo 'no such artifact' >&2; exit 1")
    with machine.build() as run:
        _, complaints = run.communicate()
    assert run.returncode == 1
    assert "*** zookeeper-3.9.5 is not built" in complaints
    assert "no such artifact" in complaints
    assert (machine.cache / "etcd-3.7.3").is_dir()


def test_a_module_server_that_asks_for_a_pause_gets_one(machine: Machine) -> None:
    once = 'if [ "$1" = build ] && ! [ -e "$HOME/asked" ]; then touch "$HOME/asked"; echo 429 Too Many Requests; exit 1; fi'
    machine.put("go", f"{once}\n{GO}")
    with machine.build() as run:
        said, _ = run.communicate()
    assert run.returncode == 0
    assert "the module server asks for a pause: 1 s" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_build_leaves_nothing_that_looks_finished(machine: Machine, number: signal.Signals) -> None:
    stuck = 'if [ "$1" = build ]; then touch "$HOME/stuck"; exec sleep 600; fi'
    machine.put("go", f"{stuck}\n{GO}")
    with machine.build() as run:
        assert wait_for((machine.home / "stuck").exists, 60)
        os.killpg(run.pid, number)
        _, complaints = run.communicate()
    assert run.returncode == (130 if number == signal.SIGINT else -number)
    assert "Traceback" not in complaints
    assert not (machine.cache / "etcd-3.7.3").exists()
    machine.put("go", GO)
    with machine.build() as again:
        again.communicate()
    assert again.returncode == 0
    assert list(machine.cache.glob(".building-*")) == []


@pytest.fixture
def install(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """What ``make test`` does first, on a machine without etcd."""
    for name, value in machine.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", str(machine.bin))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    spec = importlib.util.spec_from_file_location("install_engines", ROOT / "tools" / "install_engines.py")
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    main: Callable[[], int] = tool.main
    return main


def apt_get(machine: Machine, condition: str = "true") -> None:
    """An apt-get that installs an etcd if the condition holds."""
    etcd = machine.bin / "etcd"
    written = f"printf '#!/bin/sh\\necho etcd Version: 3.4.23\\n' > {etcd}; /bin/chmod 755 {etcd}"
    machine.put(
        "apt-get", f'echo "apt-get $*" >> "$HOME/calls"\n[ $1 = install ] || exit 0\n{condition} || exit 1\n{written}'
    )


def test_a_machine_where_we_may_not_install_is_told_the_command(
    machine: Machine, install: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    apt_get(machine)
    machine.put("sudo", "exit 1")
    assert install() == 0
    assert machine.calls == []
    assert "*** Engines are missing. Tests that need them are not run." in capsys.readouterr().err


def test_root_installs_what_is_missing_and_only_once(
    machine: Machine, install: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    apt_get(machine)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    install()
    assert len(machine.calls) == 1
    assert machine.calls[0].startswith("apt-get install -y --no-install-recommends etcd-server etcd-client")
    install()
    assert not any("etcd" in call for call in machine.calls[1:])


def test_a_sudo_that_asks_for_no_password_will_do(machine: Machine, install: Callable[[], int]) -> None:
    apt_get(machine)
    machine.put("sudo", '[ "$1" = -n ] && shift && { [ "$1" = true ] || exec "$@"; }')
    install()
    assert "etcd-server" in machine.calls[0]
    assert (machine.bin / "etcd").exists()


def test_the_list_of_packages_is_renewed_only_if_it_does_not_do(
    machine: Machine, install: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    apt_get(machine, condition='[ "$(/usr/bin/wc -l < "$HOME/calls")" -eq 3 ]')
    install()
    assert [call.split()[1] for call in machine.calls] == ["install", "update", "install"]
    assert (machine.bin / "etcd").exists()


@pytest.mark.parametrize("works", [True, False])
def test_a_build_server_on_which_the_installation_fails_fails_and_says_why(
    machine: Machine,
    install: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    works: bool,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("CI", "true")
    for engine in PACKAGES:
        if engine != "zookeeper":  # Its jars are where no PATH leads.
            machine.put(PROGRAMS.get(engine, engine), "echo 1.0.0")
    for name in TOOLS:
        machine.put(name, "exit 0")
    (machine.bin / "etcd").unlink()
    apt_get(machine, condition=str(works).lower() if works else "(echo 'no such host' >&2; false)")
    missing = [] if works else ["etcd-server", "etcd-client"]
    missing += [] if packaged("zookeeper") else ["zookeeper"]
    assert install() == bool(missing)
    said = capsys.readouterr().err
    assert ("no such host" in said) == (not works)
    if missing:
        assert (
            f"*** Engines are missing. CI=true, so no tests are run. To install them: apt-get install -y {' '.join(missing)}\n"
            in said
        )
    else:
        assert said == ""
