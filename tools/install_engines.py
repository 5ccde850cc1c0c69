"""Install the engines that the package manager has. Run by ``make test``; says nothing when there is nothing to do.

Needs apt-get, and root or a sudo that asks for no password. Where that is not at hand, it says loudly what is missing and
which command installs it, and the tests go on without: each one that needs the engine is skipped. Where CI=true it fails
instead: a build server on which an installation failed would run on the engines that are left, and be green.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial

from tenure.testing.engines.binaries import FAKE_CLOCK, PACKAGES, TOOLS, MissingEngine, fake_clock, packaged, tool

_INSTALL = ("install", "-y", "--no-install-recommends")
_PATIENCE_S = 300  # A minute is usual. Whoever waits for longer has a network that does not answer.


def missing() -> list[str]:
    """The packages that are not there."""
    engines = [engine for engine in PACKAGES if not packaged(engine)]
    tools = [package for name, package in TOOLS.items() if not _is_there(partial(tool, name))]
    clock = [] if _is_there(fake_clock) else [FAKE_CLOCK]
    return [package for engine in engines for package in PACKAGES[engine]] + tools + clock


def _is_there(find: Callable[[], str]) -> bool:
    try:
        return bool(find())
    except MissingEngine:
        return False


def apt_get() -> list[str] | None:
    """What a command of apt-get begins with; None if we may not, or there is none."""
    if shutil.which("apt-get") is None:
        return None
    if os.geteuid() == 0:
        return ["apt-get"]
    allowed = shutil.which("sudo") and _runs(["sudo", "-n", "true"])
    return ["sudo", "-n", "apt-get"] if allowed else None


def install(apt: list[str], packages: list[str]) -> None:
    """Install them, with a fresh list of packages only if it does not work with the one that is there."""
    print(f"installing {' '.join(packages)}", flush=True)
    if not _runs([*apt, *_INSTALL, *packages]) and _runs([*apt, "update"], tells=True):
        _runs([*apt, *_INSTALL, *packages], tells=True)


def main() -> int:
    """Install what is missing if that is possible; say so if it is not. Returns the exit code."""
    packages = missing()
    if packages and (apt := apt_get()):
        install(apt, packages)
        packages = missing()
    if not packages:
        return 0
    fails = os.environ.get("CI") == "true"
    means = "CI=true, so no tests are run." if fails else "Tests that need them are not run."
    command = f"apt-get install -y {' '.join(packages)}"
    print(f"*** Engines are missing. {means} To install them: {command}", file=sys.stderr)
    return int(fails)


def _runs(command: list[str], *, tells: bool = False) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        answer = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"{' '.join(command)} was given up after {_PATIENCE_S} s", file=sys.stderr)
        return False
    if answer.returncode != 0 and tells:
        print(answer.stderr.decode(errors="replace").strip(), file=sys.stderr)
    return answer.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
