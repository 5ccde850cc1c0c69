"""Places that cannot hold the database are refused with the reason, and nothing is touched on the way."""

import os
import socket
from pathlib import Path

import pytest

from tenure.errors import ConfigError
from tenure.stores.sqlite.host import check_place, filesystem_of, plain_path, this_host

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:40 / /mnt/team\\040share rw - cifs //server/share rw
32 22 0:41 / /mnt rw,noatime shared:2 master:3 - xfs /dev/sdb1 rw
33 32 0:42 / /mnt/nfs rw - nfs4 server:/x rw
34 22 0:43 / /over rw - nfs server:/y rw
35 22 0:44 / /over rw - tmpfs tmpfs rw
"""


def mounted(kind: str) -> str:
    return f"22 1 8:1 / / rw - {kind} source rw\n"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/lib/x.db", ("/", "ext4")),
        ("/mnt/x.db", ("/mnt", "xfs")),
        ("/mnt/nfs/deep/x.db", ("/mnt/nfs", "nfs4")),
        ("/mnt/nfsish/x.db", ("/mnt", "xfs")),
        ("/mnt/team share/x.db", ("/mnt/team share", "cifs")),
        ("/over/x.db", ("/over", "tmpfs")),
    ],
)
def test_a_file_lies_on_the_longest_and_last_mount_above_it(path: str, found: tuple[str, str]) -> None:
    assert filesystem_of(path, MOUNTS) == found


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "ceph",
        "fuse",
        "fuse.sshfs",
        "fuse.s3fs",
        "glusterfs",
        "fuse.glusterfs",
        "lustre",
        "afs",
        "gfs2",
        "ocfs2",
        "virtiofs",
    ],
)
def test_a_filesystem_that_machines_share_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"network or shared filesystem \({kind}, mounted at /\)"):
        check_place(tmp_path / "x.db", mounts=mounted(kind))


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "fuseblk", "fuse.fuse-overlayfs"])
def test_a_local_filesystem_is_taken(kind: str, tmp_path: Path) -> None:
    assert check_place(tmp_path / "x.db", mounts=mounted(kind)) == tmp_path.resolve() / "x.db"


def test_the_filesystem_is_that_of_the_file_which_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "share" / "x.db").touch()
    (tmp_path / "link.db").symlink_to(tmp_path / "share" / "x.db")
    mounts = mounted("ext4") + f"23 22 0:9 / {(tmp_path / 'share').resolve()} rw - nfs server:/x rw\n"
    with pytest.raises(ConfigError, match="shared filesystem"):
        check_place(tmp_path / "link.db", mounts=mounts)


def test_a_file_that_is_mounted_alone_is_refused(tmp_path: Path) -> None:
    path = tmp_path.resolve() / "x.db"
    path.touch()
    with pytest.raises(ConfigError, match="mount its folder"):
        check_place(path, mounts=mounted("ext4") + f"23 22 0:9 /x.db {path} rw - ext4 /dev/sda1 rw\n")


@pytest.mark.parametrize("name", [":memory:", "file::memory:", "file:x?mode=memory&cache=shared"])
def test_a_database_in_memory_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="seen by one process only"):
        plain_path(name)


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_name_that_names_no_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="must name a file"):
        plain_path(name)


def test_a_uri_is_refused() -> None:
    with pytest.raises(ConfigError, match="plain path"):
        plain_path("file:x.db?nolock=1")


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"folder that does not exist: {tmp_path.resolve()}/gone"):
        check_place(tmp_path / "gone" / "x.db")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_not_taken_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it is a folder"):
        check_place(tmp_path)


def test_a_socket_is_not_taken_for_a_file(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "x.db"))
        with pytest.raises(ConfigError, match="a device, a pipe or a socket"):
            check_place(tmp_path / "x.db")


def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").symlink_to(tmp_path / "x.db")
    with pytest.raises(ConfigError, match="cannot be looked at"):
        check_place(tmp_path / "x.db")


def test_a_file_with_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").touch()
    (tmp_path / "y.db").hardlink_to(tmp_path / "x.db")
    with pytest.raises(ConfigError, match="has 2 hard links"):
        check_place(tmp_path / "x.db")


@pytest.mark.parametrize("what", ["file", "folder"])
def test_what_this_process_may_not_write_to_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path.resolve() / "x.db"
    path.touch()
    forbidden = path if what == "file" else path.parent

    def access(name: Path, mode: int) -> bool:
        return name != forbidden or not mode & os.W_OK

    with pytest.raises(ConfigError, match=f"is a {what} that" if what == "file" else "lies in a folder that"):
        check_place(path, access=access)


def test_the_host_is_the_same_each_time_it_is_asked() -> None:
    assert this_host() == this_host()
    assert this_host().boot_id
