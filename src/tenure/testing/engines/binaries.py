"""Which engines are on this machine, and in which versions.

Two places are looked into: where the package manager puts things, and the user's cache folder, where ``make engines`` puts
what it has built: ``etcd-3.7.3/``, ``zookeeper-3.9.5/``, ``consul-1.22.7/``, ``kubernetes-1.36.3/``, ``versitygw-1.8.0/``. An
engine is never downloaded from here.
"""

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from tenure.errors import ConfigError, TenureError

_VERSION = re.compile(r"\d+\.\d+(\.\d+)?")  # PostgreSQL has two numbers
# Debian's class path, for its ZooKeeper names some jars in itself. What it leaves out: the log, and TLS.
_DEBIAN_JARS = Path("/usr/share/java")
_DEBIAN_EXTRAS = ("slf4j-simple.jar", "netty-codec.jar", "netty-resolver.jar")

_ZOOKEEPER = "zookeeper"
# Engines that are programs: the server, its command line, and what makes the server tell its version.
_PROGRAMS = {
    "etcd": ("etcd", "etcdctl", "--version"),
    "consul": ("consul", "consul", "version"),
    "kubernetes": ("kube-apiserver", "kubectl", "--version"),
    "postgresql": ("postgres", "psql", "--version"),
    "pgbouncer": ("pgbouncer", "psql", "--version"),
    "mariadb": ("mariadbd", "mariadb", "--version"),
    "redis": ("redis-server", "redis-cli", "--version"),
    "versitygw": ("versitygw", "versitygw", "--version"),
}
# Debian keeps servers where only root looks, and those of PostgreSQL, of which there may be several, where nobody does.
_FOLDERS = ("usr/sbin", "usr/lib/postgresql/*/bin")
ENGINES = (*_PROGRAMS, _ZOOKEEPER)
# What the package manager calls those that it has: ``make test`` installs them.
PACKAGES = {
    "etcd": ("etcd-server", "etcd-client"),
    _ZOOKEEPER: ("zookeeper",),
    "postgresql": ("postgresql",),
    "pgbouncer": ("pgbouncer",),
    "mariadb": ("mariadb-server",),
    "redis": ("redis-server",),
}
# Programs that are no engines, and that elections are seen through: the package of each.
TOOLS = {"promtool": "prometheus", "haproxy": "haproxy", "nginx": "nginx-light", "chromium": "chromium"}
# Beside them: what shows a server another time than the machine has.
FAKE_CLOCK = "libfaketime"


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
    if engine not in ENGINES:
        raise ConfigError("engine", engine, f"must be one of {', '.join(ENGINES)}")
    found = (_built_zookeeper() if engine == _ZOOKEEPER else _built_programs(engine)) + packaged(engine)
    # Of two with the same version the first one found stays: what was built on purpose.
    versions = {binary.version: binary for binary in reversed(found)}
    return sorted(versions.values(), key=lambda binary: [int(part) for part in binary.version.split(".")], reverse=True)


def newest(engine: str) -> Binary:
    """The newest version of ``engine`` on this machine; raises MissingEngine, with the command that installs one."""
    found = installed(engine)
    if not found:
        package = f"apt-get install -y {' '.join(PACKAGES[engine])}, or " if engine in PACKAGES else ""
        raise MissingEngine(engine, f"{package}make engines in a clone of tenure")
    return found[0]


def packaged(engine: str) -> list[Binary]:
    """What the package manager, or a person, has put on this machine."""
    return _packaged_zookeeper() if engine == _ZOOKEEPER else _packaged_programs(engine)


def tool(name: str) -> str:
    """Where one of ``TOOLS`` is; raises MissingEngine, with the command that installs it."""
    found = _which(name)
    if found is None:
        raise MissingEngine(name, f"apt-get install -y {TOOLS[name]}")
    return found


def fake_clock() -> str:
    """The library that, loaded before a program, decides what time it is there; raises MissingEngine."""
    for found in Path("/").glob("usr/lib/*/faketime/libfaketimeMT.so.1"):
        return str(found)
    raise MissingEngine(FAKE_CLOCK, f"apt-get install -y {FAKE_CLOCK}")


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


def _built_programs(engine: str) -> list[Binary]:
    program, tool, _ = _PROGRAMS[engine]
    return [
        Binary(engine, version, str(folder / program), str(folder / tool))
        for version, folder in _built(engine)
        if (folder / program).is_file()
    ]


def _packaged_programs(engine: str) -> list[Binary]:
    name, tool, ask = _PROGRAMS[engine]
    program = _which(name)
    if program is None:
        return []
    answer = subprocess.run([program, ask], capture_output=True, text=True, check=False)
    version = _VERSION.search(answer.stdout)
    return [Binary(engine, version[0], program, _which(tool) or "")] if version else []


def _which(name: str) -> str | None:
    here = Path("/")
    folders = [str(folder) for pattern in _FOLDERS for folder in sorted(here.glob(pattern), reverse=True)]
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(folders))


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
