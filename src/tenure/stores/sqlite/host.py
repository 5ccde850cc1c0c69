"""What this store must know of the machine: which boot it is, whose clock it reads, and what the file lies on.

Rules of this file
1. A lease is an instant on the machine's boot clock. It means nothing after the next boot, nor to a process whose time
   namespace shifts that clock, so both are kept beside it and compared before the instant is.
2. One file is shared by the processes of one machine. Whatever could show it to two machines, or show two processes two
   logs of it, is refused before the file is opened: SQLite would not notice, and there would be two leaders.
3. The database file is never opened here. A process that closes any descriptor of a file drops all its POSIX locks on
   that file, also those of SQLite connections elsewhere in the process (sqlite.org/howtocorrupt.html, 2.2).
"""

import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tenure.errors import ConfigError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")
_MOUNTS = Path("/proc/self/mountinfo")

# Filesystems that two machines can have mounted at once. On most of them SQLite's shared memory is not shared and locks
# are a matter of luck; on the rest (ocfs2, gfs2) both work, and the boot clocks of the machines still do not agree.
# fmt: off
_SHARED_FILESYSTEMS = frozenset((
    "9p", "acfs", "afpfs", "afs", "autofs", "beegfs", "ceph", "cifs", "coda", "cvfs", "davfs", "drvfs", "gfs",
    "gfs2", "glusterfs", "gpfs", "kafs", "lustre", "mfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs",
    "pnfs", "prl_fs", "pvfs2", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
))
# fmt: on
# A FUSE filesystem may be anything, and most are somebody else's disk (sshfs, s3fs, rclone, glusterfs, grpcfuse …).
# These are known to lie on this machine.
_LOCAL_FUSE = frozenset(("fuse.encfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.ntfs-3g", "fuse.ext4"))

Access = Callable[[Path, int], bool]

_OCTAL = re.compile(r"\\([0-7]{3})")  # mountinfo writes a space in a path as \040


@dataclass(frozen=True, slots=True)
class Host:
    """Whose clock an instant belongs to. Instants of different hosts, in this sense, cannot be compared."""

    boot_id: str
    time_namespace: str


def this_host() -> Host:
    """Return the boot and the time namespace of this process. Ask again after a fork: a child may be in another one."""
    if sys.platform == "darwin":
        asked = subprocess.run(["/usr/sbin/sysctl", "-n", "kern.bootsessionuuid"], capture_output=True, check=True)
        return Host(asked.stdout.decode().strip(), "none")
    try:
        boot_id = _BOOT_ID.read_text().strip()
    except (FileNotFoundError, PermissionError) as error:  # Others pass: no descriptor may be left, for a moment.
        rule = f"has no {_BOOT_ID}, so a lease could not be told from one before a reboot ({error.strerror})"
        raise ConfigError("platform", sys.platform, rule) from None
    try:
        time_namespace = str(_TIME_NAMESPACE.readlink())
    except OSError:
        time_namespace = "none"  # Kernels before 5.6 have no time namespaces: there is one clock.
    return Host(boot_id, time_namespace)


def plain_path(path: str | os.PathLike[str]) -> Path:
    """Return ``path`` as an absolute one. Refuses what SQLite takes for something other than a file on a disk."""
    name = os.fspath(path)
    if not name or "\0" in name:
        raise ConfigError("path", repr(name), "must name a file")
    if name.startswith(":memory:") or (name.startswith("file:") and re.search(r":memory:|mode=memory", name)):
        rule = "must be a file on a disk: a database in memory is seen by one process only, so it elects nobody"
        raise ConfigError("path", name, rule)
    if name.startswith("file:"):
        raise ConfigError("path", name, "must be a plain path, not a file: URI, whose options could switch locks off")
    # Two slashes in front mean something else on some systems, and an empty host in a URI on all.
    return Path(re.sub("^//+", "/", name)).absolute()


def check_place(path: Path, *, mounts: str | None = None, access: Access | None = None) -> Path:
    """Refuse a place that cannot hold the database; return its path without symbolic links. Touches nothing.

    ``mounts`` and ``access`` stand in for the kernel's, for tests.
    """
    access = access or _access
    try:
        real = path.resolve()
        found = real.stat() if real.exists() else None
        folder_exists, circular = real.parent.is_dir(), real.is_symlink()
    except (OSError, RuntimeError) as error:  # RuntimeError: links that lead in a circle.
        raise ConfigError("path", path, f"cannot be looked at: {error}") from None
    if circular:  # Newer versions of Python tell it this way.
        raise ConfigError("path", path, "cannot be looked at: its links lead in a circle")
    if not folder_exists:
        raise ConfigError("path", path, f"lies in a folder that does not exist: {real.parent}")
    if found is not None:
        _check_file(path, found)
    if mounts is None:
        # Elsewhere than on Linux we cannot ask; the documents say so.
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape") if _MOUNTS.exists() else ""
    _check_filesystem(path, str(real), mounts)
    if found is not None and not access(real, os.R_OK | os.W_OK):
        raise ConfigError("path", path, "is a file that this process may not both read and write")
    if not access(real.parent, os.W_OK | os.X_OK):
        rule = f"lies in a folder that this process may not write to, and SQLite keeps its log there: {real.parent}"
        raise ConfigError("path", path, rule)
    return real


def filesystem_of(real: str, mounts: str) -> tuple[str, str]:
    """Return mount point and type of the filesystem that ``real`` lies on, read from the text of a mountinfo."""
    point, kind = "", "unknown"
    for line in mounts.splitlines():
        # 36 35 98:0 /sub /mount/point rw,noatime master:1 - ext3 /dev/sda1 rw   (proc(5); "-" ends optional fields)
        mount, _, system = line.partition(" - ")
        mounted_at = _OCTAL.sub(lambda match: chr(int(match[1], 8)), mount.split(" ")[4])
        # The longest one, and of equals the last: it hides those that were mounted there before.
        if len(mounted_at) >= len(point) and (real == mounted_at or real.startswith(mounted_at.rstrip("/") + "/")):
            point, kind = mounted_at, system.split(" ")[0]
    return point, kind


def _access(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _check_file(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ConfigError("path", path, "must be a file, but it is a folder")
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError("path", path, "must be a file, but it is a device, a pipe or a socket")
    if found.st_nlink > 1:
        rule = f"has {found.st_nlink} hard links: SQLite keeps one log per name, so two processes could miss each other"
        raise ConfigError("path", path, rule)


def _check_filesystem(path: Path, real: str, mounts: str) -> None:
    point, kind = filesystem_of(real, mounts)
    if kind in _SHARED_FILESYSTEMS or (re.match(r"fuse(\.|$)", kind) and kind not in _LOCAL_FUSE):
        rule = (
            f"lies on a network or shared filesystem ({kind}, mounted at {point}), on which locks and clocks of two "
            f"machines do not hold: use a local disk, or a store that is a server"
        )
        raise ConfigError("path", path, rule)
    if point == real:
        # A container that is given the file alone keeps its log in a folder of its own: it would never see ours.
        rule = "is mounted as a single file: mount its folder, because SQLite keeps its log beside the file"
        raise ConfigError("path", path, rule)
