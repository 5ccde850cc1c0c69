"""What starting costs: imports beside asyncio's and click's, each over bare Python, in fresh processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

ROUNDS = 15
ALL_NAMES = "import tenure; [getattr(tenure, name) for name in tenure.EXPORTS]"


def _seconds(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def figures() -> Iterator[tuple[str, float, float, str, bool]]:
    commands = {
        "bare": ("-c", "pass"),
        "asyncio": ("-c", "import asyncio"),
        "click": ("-c", "import click"),
        "tenure": ("-c", "import tenure"),
        "all": ("-c", ALL_NAMES),
        "help": ("-m", "tenure", "--help"),
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for command in commands.values():  # the first run compiles
        _seconds(*command)
    for _ in range(ROUNDS):
        for name, command in commands.items():
            taken[name].append(_seconds(*command))
    cost = {name: median(times) for name, times in taken.items()}
    over = {name: value - cost["bare"] for name, value in cost.items()}
    yield "import tenure / import asyncio, over bare Python", over["tenure"] / over["asyncio"], 1.3, "x", False
    yield "import tenure and use every name / import asyncio", over["all"] / over["asyncio"], 1.3, "x", False
    yield "tenure --help / python -c 'import click'", cost["help"] / cost["click"], 1.5, "x", False
