"""The sinks lean on what drivers keep for themselves, which differs by version: with the oldest that we promise, they do the same."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tenure.testing.engines import MariaDbCluster, MissingEngine, PostgresCluster

ROOT = Path(__file__).parents[2]
# Connections that end, that are given up, whose first statement comes late, and that are cut off in the middle of an answer.
TOLD = ("test_postgresql_given_up", "test_postgresql_faults", "test_postgresql_late_begin", "test_sql_pool")
LIMIT_S = 240


def oldest() -> dict[str, str]:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    bounds = [
        re.fullmatch(r"([\w-]+)>=([\d.]+)", bound) for extra in ("postgresql", "mysql") for bound in extras[extra]
    ]
    return {bound[1]: bound[2] for bound in bounds if bound is not None}


@pytest.mark.timeout(LIMIT_S + 60)
def test_sinks_do_the_same_with_the_oldest_drivers(
    tmp_path: Path, postgresql: PostgresCluster, mariadb: MariaDbCluster
) -> None:
    # Both are asked for so that it is said here if one is not installed.
    assert postgresql.nodes
    assert mariadb.nodes
    drivers = oldest()
    assert set(drivers) == {"asyncpg", "asyncmy"}
    named = [f"{name}=={number}" for name, number in drivers.items()]
    where = ["--target", str(tmp_path), "--no-deps", "--quiet", "--disable-pip-version-check"]
    installed = subprocess.run([sys.executable, "-m", "pip", "install", *where, *named], timeout=LIMIT_S, check=False)
    if installed.returncode:
        raise MissingEngine(" and ".join(named), "a package registry must be reachable, and have them for this Python")
    found = "import asyncpg, asyncmy; print(asyncpg.__file__, asyncmy.__file__)"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for name in [name for name in env if name.startswith("PYTEST_")]:  # of whoever runs us
        del env[name]
    told = subprocess.run(
        [sys.executable, "-c", found], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.count(str(tmp_path)) == len(drivers)
    tests = [f"tests/sinks/{name}.py" for name in TOLD]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-1000:]
    assert re.search(r"\d+ passed", ran.stdout)
    assert "NOT RUN" not in ran.stdout
