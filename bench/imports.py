"""What starting costs: imports beside asyncio's and click's, each over bare Python, in fresh processes."""

import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median

ROUNDS = 15
FACE = "import tenure; tenure.open_store, tenure.Election"
NEEDED = "import asyncio, anyio, logging"  # what the public face stands on


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
        "needed": ("-c", NEEDED),
        "face": ("-c", FACE),
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
    # No issue asks for this one: the goal only keeps it from growing. Half of it is the making of frozen dataclasses.
    yield "the same with Election / import asyncio and anyio", over["face"] / over["needed"], 3.0, "x", False
    yield "tenure --help / python -c 'import click'", cost["help"] / cost["click"], 1.5, "x", False
