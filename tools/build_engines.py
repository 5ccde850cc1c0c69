"""Build what no package manager has: the newest engines, and the programs of others in tests/peers.

Run by ``make engines``. What is built is named by files of this repository: ``engines/*/`` and ``tests/peers/*/``.

Rules of this file
1. What is finished lies in the user's cache folder, under a name that says what it was made of, and is not made again.
2. It appears there whole: it is built in a folder beside it and renamed last. An interruption leaves nothing that looks
   finished, and the next run takes away what it left.
3. The finished programs are kept and the caches of the build are not, except those that were there before: a user who works
   with Go or Maven wants to keep them.
4. Without a tool the rest is built nevertheless. Then the exit code is 1, and the last lines say what is missing and what
   that means.
"""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenure.testing.engines.binaries import ENGINES, built_from, cache_folder, installed

ROOT = Path(__file__).parents[1]
ETCD = ROOT / "engines" / "etcd"
ZOOKEEPER = ROOT / "engines" / "zookeeper"
CONSUL = ROOT / "engines" / "consul"
KUBERNETES = ROOT / "engines" / "kubernetes"
VERSITYGW = ROOT / "engines" / "versitygw"
PEERS = ROOT / "tests" / "peers"

_BUILDING = ".building-"  # what folders are called until they are finished
_PEERS_KEPT = 4  # of each language: several work trees may have different sources
# A module server that is asked for hundreds of files at once may want a pause.
_BUSY = re.compile(r"too many requests|\b429\b", re.IGNORECASE)
_PAUSES_S = (1, 10, 40)


class CannotBuild(Exception):
    """Something could not be built; the text says what and why."""


@dataclass(frozen=True)
class Item:
    """One thing to build into ``folder``; ``without`` says what is lost if it cannot be."""

    folder: Path
    build: Callable[[Path, Path], None]
    without: str


def items() -> list[Item]:
    """Everything that there is to build, whether it is there already or not."""
    cache = cache_folder()
    engines = [
        (f"etcd-{_go_version(ETCD, 'go.etcd.io/etcd/server/v3')}", build_etcd),
        (f"zookeeper-{_zookeeper_version()}", build_zookeeper),
        (f"consul-{_go_version(CONSUL, 'github.com/hashicorp/consul')}", build_consul),
        (f"kubernetes-{_kubernetes_version()}", build_kubernetes),
        (f"versitygw-{_versitygw_version()}", build_versitygw),
    ]
    found = [Item(cache / name, build, f"tests do not run on {name}") for name, build in engines]
    for language, build in (("go", build_go_peer), ("java", build_java_peer)):
        sources = PEERS / language
        if sources.is_dir():
            found.append(
                Item(built_from(sources), build, f"tests with the program in {sources.relative_to(ROOT)} fail")
            )
    return found


def build_etcd(out: Path, scratch: Path) -> None:
    """Build the server and its two tools with the Go module client, from what go.mod and go.sum pin."""
    for program, package in (("etcd", "server"), ("etcdctl", "etcdctl"), ("etcdutl", "etcdutl")):
        _go_build(ETCD, f"go.etcd.io/etcd/{package}/v3", out / program, scratch)


def build_zookeeper(out: Path, scratch: Path) -> None:
    """Copy ZooKeeper and all that it needs with Maven, from what the pom pins."""
    _maven(ZOOKEEPER, scratch, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={out}")


def build_consul(out: Path, scratch: Path) -> None:
    """Build the one program that is Consul's server, agent and command line."""
    _go_build(CONSUL, "github.com/hashicorp/consul", out / "consul", scratch)


def build_kubernetes(out: Path, scratch: Path) -> None:
    """Build the API server and kubectl. Nothing else of Kubernetes has to do with a Lease."""
    version = f"-X k8s.io/component-base/version.gitVersion=v{_kubernetes_version()}"
    for program in ("kube-apiserver", "kubectl"):
        _go_build(KUBERNETES, f"k8s.io/kubernetes/cmd/{program}", out / program, scratch, version)


def build_versitygw(out: Path, scratch: Path) -> None:
    """Build the one program that is Versity's S3 gateway."""
    version = f"-X main.Version=v{_versitygw_version()}"
    _go_build(VERSITYGW, "github.com/versity/versitygw/cmd/versitygw", out / "versitygw", scratch, version)


def build_go_peer(out: Path, scratch: Path) -> None:
    """Build the peers in Go: a program for each engine that they contend on."""
    for engine in ("etcd", "consul", "kubernetes"):
        _go_build(PEERS / "go", f"./{engine}", out / engine, scratch)


def build_java_peer(out: Path, scratch: Path) -> None:
    """Build the peer in Java: the jars of a class path, in ``lib``."""
    _maven(PEERS / "java", scratch, "package", f"-Dbuild.folder={scratch / 'java'}")
    shutil.move(scratch / "java" / "lib", out / "lib")


def main() -> int:
    """Build whatever is not there yet; returns the exit code."""
    cache_folder().mkdir(parents=True, exist_ok=True)
    failures = []
    with _alone() as scratch:
        for item in items():
            if item.folder.is_dir():
                continue
            try:
                _build(item, scratch)
            except CannotBuild as reason:
                failures.append(f"{item.folder.name} is not built, so {item.without}: {reason}")
        _forget_old_peers()
    for engine in ENGINES:
        versions = ", ".join(binary.version for binary in installed(engine))
        print(f"{engine}: {versions or 'none'}")
    for failure in failures:
        print(f"*** {failure}", file=sys.stderr)
    return 1 if failures else 0


def _build(item: Item, scratch: Path) -> None:
    started_s = time.monotonic()
    print(f"building {item.folder.name}", flush=True)
    out = scratch / item.folder.name
    out.mkdir()
    item.build(out, scratch)
    out.rename(item.folder)
    print(f"built {item.folder.name} in {time.monotonic() - started_s:.0f} s", flush=True)


def _go_build(module: Path, package: str, program: Path, scratch: Path, link: str = "") -> None:
    go = _tool("go", "Go", "golang-go")
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        # The module cache is made writable, or it could not be deleted.
        "GOFLAGS": f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -modcacherw".strip(),
    }
    answer = subprocess.run([go, "env", "-json", "GOMODCACHE", "GOCACHE"], capture_output=True, text=True, check=True)
    for name, folder in json.loads(answer.stdout).items():
        if name not in os.environ and not Path(folder).is_dir():
            environment[name] = str(scratch / name)
    _run([go, "build", "-trimpath", f"-ldflags=-s -w {link}".strip(), "-o", str(program), package], module, environment)


def _maven(module: Path, scratch: Path, *goals: str) -> None:
    maven = _tool("mvn", "Maven", "maven")
    own = Path.home() / ".m2" / "repository"
    repository = [] if own.is_dir() else [f"-Dmaven.repo.local={scratch / 'repository'}"]
    _run([maven, "--quiet", "--batch-mode", *repository, *goals], module, dict(os.environ))


def _tool(name: str, title: str, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise CannotBuild(f"{title} is missing: apt-get install -y {package}, then make engines again")
    return found


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    for pause_s in (*_PAUSES_S, None):
        answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        said = (answer.stderr + answer.stdout).strip()
        if answer.returncode == 0:
            return
        if pause_s is None or not _BUSY.search(said):
            raise CannotBuild(f"{' '.join(command)} ended with {answer.returncode}:\n{said}")
        print(f"the module server asks for a pause: {pause_s} s", flush=True)
        time.sleep(pause_s)


def _go_version(module: Path, package: str) -> str:
    return _pinned(module / "go.mod", rf"{re.escape(package)} v([\d.]+)")


def _kubernetes_version() -> str:
    return _go_version(KUBERNETES, "k8s.io/kubernetes")


def _versitygw_version() -> str:
    return _go_version(VERSITYGW, "github.com/versity/versitygw")


def _zookeeper_version() -> str:
    return _pinned(ZOOKEEPER / "pom.xml", r"<artifactId>zookeeper</artifactId>\s*<version>(\d+\.\d+\.\d+)</version>")


def _pinned(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text())
    assert found is not None, f"{file} pins no version"
    return found[1]


@contextmanager
def _alone() -> Iterator[Path]:
    """Let one run build at a time, in a folder that is gone at the end; take away what interrupted ones have left."""
    with (cache_folder() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in cache_folder().glob(f"{_BUILDING}*"):
            shutil.rmtree(left)
        with tempfile.TemporaryDirectory(prefix=_BUILDING, dir=cache_folder()) as scratch:
            yield Path(scratch)


def _forget_old_peers() -> None:
    for language in ("go", "java"):
        folders = sorted(cache_folder().glob(f"peers-{language}-*"), key=lambda folder: folder.stat().st_mtime)
        for folder in folders[:-_PEERS_KEPT]:
            shutil.rmtree(folder)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted: what was finished is kept, the rest is gone", file=sys.stderr)
        sys.exit(130)
