"""What ``tenure plan`` takes: the whole process, beside bare Python and ``tenure --version``, in fresh processes."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

from rows import Figures, told

ROUNDS = 15
GOAL_S = 0.3
PAUSES = 2000


def _seconds(*arguments: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=False, stdout=subprocess.DEVNULL)  # 1: that it does not fit
    return time.perf_counter() - began


def figures() -> Figures:
    with tempfile.TemporaryDirectory() as folder:
        log, lots = Path(folder) / "gc.txt", Random(1)
        log.write_text("".join(f"{lots.expovariate(20):.4f}s\n" for _ in range(PAUSES)))
        pauses = ("--pauses", str(log), "--pauses-over", "24h", "--target", "1/30d")
        commands = {
            "bare": ("-c", "pass"),
            "version": ("-m", "tenure", "--version"),
            "plan": ("-m", "tenure", "plan"),
            "store": ("-m", "tenure", "plan", "--store", "consul://h", "--target", "1/30d", "--json"),
            "log": ("-m", "tenure", "plan", *pauses),
            "png": ("-m", "tenure", "plan", "--chart", str(Path(folder) / "plan.png")),
        }
        taken: dict[str, list[float]] = {name: [] for name in commands}
        for command in commands.values():  # the first run compiles
            _seconds(*command)
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(_seconds(*command))
    cost = {name: median(times) for name, times in taken.items()}
    yield told("python -c pass", cost["bare"], "s")
    yield told("tenure --version", cost["version"], "s")
    yield "tenure plan", cost["plan"], GOAL_S, "s", False
    yield "the same for Consul with --target, as JSON", cost["store"], GOAL_S, "s", False
    yield f"the same with a log of {PAUSES} pauses and --target", cost["log"], GOAL_S, "s", False
    yield "the same with a chart as PNG", cost["png"], GOAL_S, "s", False
