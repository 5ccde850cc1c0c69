"""Which engines are on this machine, and in which versions.

Two places are looked into: where the package manager puts things, and the user's cache folder, where ``make engines`` puts
what it has built: ``etcd-3.7.3/``, ``zookeeper-3.9.5/``. An engine is never downloaded from here.
"""

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tenure.errors import ConfigError, TenureError

_VERSION = re.compile(r"\d+\.\d+\.\d+")
# Debian's class path, for its ZooKeeper names some jars in itself. What it leaves out: the log, and TLS.
_DEBIAN_JARS = Path("/usr/share/java")
_DEBIAN_EXTRAS = ("slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar")

_ETCD = "etcd"
_ZOOKEEPER = "zookeeper"
# What the package manager calls them: ``make test`` installs these, and an engine that is missing is told of by them.
PACKAGES = {_ETCD: ("etcd-server", "etcd-client"), _ZOOKEEPER: ("zookeeper",)}


class MissingEngine(TenureError):
    """Something that the harness needs is not on this machine. ``what`` it is, and the ``fix``: what to do about it."""

    def __init__(self, what: str, fix: str) -> None:
        self.what, self.fix = what, fix
        super().__init__(what, fix)

    def __str__(self) -> str:
        return f"{self.what} is missing: {self.fix}"


@dataclass(frozen=True)
class Binary:
    """One version of an engine. ``program`` is the file that is run, or Java's class path; ``tool`` its command line, or ""."""

    engine: str
    version: str
    program: str
    tool: str = ""

    def __str__(self) -> str:
        return f"{self.engine}-{self.version}"


def cache_folder() -> Path:
    """Where ``make engines`` keeps what it has built."""
    return platformdirs.user_cache_path("tenure") / "engines"


def installed(engine: str) -> list[Binary]:
    """The versions of ``engine`` on this machine, the newest first; none if it is not there."""
    if engine not in PACKAGES:
        raise ConfigError("engine", engine, f"must be one of {', '.join(PACKAGES)}")
    found = (_built_etcd() if engine == _ETCD else _built_zookeeper()) + packaged(engine)
    # Of two with the same version the first one found stays: what was built on purpose.
    versions = {binary.version: binary for binary in reversed(found)}
    return sorted(versions.values(), key=lambda binary: [int(part) for part in binary.version.split(".")], reverse=True)


def newest(engine: str) -> Binary:
    """The newest version of ``engine`` on this machine; raises MissingEngine, with the command that installs one."""
    found = installed(engine)
    if not found:
        packages = " ".join(PACKAGES[engine])
        raise MissingEngine(engine, f"apt-get install -y {packages}, or make engines in a clone of tenure")
    return found[0]


def packaged(engine: str) -> list[Binary]:
    """What the package manager, or a person, has put on this machine."""
    return _packaged_etcd() if engine == _ETCD else _packaged_zookeeper()


def built_from(sources: Path) -> Path:
    """Where ``make engines`` keeps what it has built from a folder of sources, as they are now."""
    digest = hashlib.sha256()
    for path in sorted(path for path in sources.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(sources).as_posix()}\n".encode() + path.read_bytes())
    return cache_folder() / f"{sources.parent.name}-{sources.name}-{digest.hexdigest()[:16]}"


def java() -> str:
    """The Java that runs ZooKeeper."""
    found = shutil.which("java")
    if found is None:
        raise MissingEngine("Java", "apt-get install -y default-jre-headless")
    return found


def _built_etcd() -> list[Binary]:
    return [
        Binary(_ETCD, version, str(folder / "etcd"), str(folder / "etcdctl"))
        for version, folder in _built(_ETCD)
        if (folder / "etcd").is_file()
    ]


def _packaged_etcd() -> list[Binary]:
    program = shutil.which("etcd")
    if program is None:
        return []
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    version = _VERSION.search(answer.stdout)
    return [Binary(_ETCD, version[0], program, shutil.which("etcdctl") or "")] if version else []


def _built_zookeeper() -> list[Binary]:
    return [Binary(_ZOOKEEPER, version, f"{folder}/*") for version, folder in _built(_ZOOKEEPER)]


def _packaged_zookeeper() -> list[Binary]:
    extras = [str(_DEBIAN_JARS / name) for name in _DEBIAN_EXTRAS]
    return [
        Binary(_ZOOKEEPER, version[0], ":".join([str(jar), *extras]))
        for jar in _DEBIAN_JARS.glob("zookeeper-[0-9]*.jar")
        if (version := _VERSION.search(jar.name))
    ]


def _built(engine: str) -> list[tuple[str, Path]]:
    return [
        (version[0], folder)
        for folder in cache_folder().glob(f"{engine}-*")
        if folder.is_dir() and (version := _VERSION.fullmatch(folder.name.removeprefix(f"{engine}-")))
    ]
