"""What ``tenure plan`` takes: the whole process, beside bare Python and ``tenure --version``, in fresh processes.

The goal is one of seconds, and not a ratio, so the quickest of the rounds counts: the others tell what else the machine had to do. What
the command does besides is judged by the processor's time, which is what it takes on a machine that is free.
"""

import os
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


def _seconds(*arguments: str) -> tuple[float, float]:
    """Run it; returns the time that passed, and that of the processor."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    passed_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode in {0, 1}, arguments  # 1: it does not fit, which is an answer
    return passed_s, used.ru_utime + used.ru_stime


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
            "outages": ("-m", "tenure", "plan", *pauses, "--outages", str(log), "--outages-over", "30d"),
            "many": ("-m", "tenure", "plan", "-N", "20", "--outages", str(log), "--outages-over", "30d"),
            "most": ("-m", "tenure", "plan", "-N", "1000", *pauses, "--outages", str(log), "--outages-over", "30d"),
            "png": ("-m", "tenure", "plan", "--chart", str(Path(folder) / "plan.png")),
        }
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for command in commands.values():  # the first run compiles
            _seconds(*command)
        for _ in range(ROUNDS):
            for name, command in commands.items():
                taken[name].append(_seconds(*command))
    passed_s = {name: min(passed for passed, _ in times) for name, times in taken.items()}
    used_s = {name: min(used for _, used in times) for name, times in taken.items()}
    yield told("python -c pass", passed_s["bare"], "s")
    yield told("tenure --version", passed_s["version"], "s")
    yield told("tenure plan, median", median(passed for passed, _ in taken["plan"]), "s")
    yield "tenure plan", passed_s["plan"], GOAL_S, "s", False
    yield "the same, of the processor", used_s["plan"], GOAL_S, "s", False
    yield "the same for Consul with --target, as JSON", used_s["store"], GOAL_S, "s", False
    yield f"the same with a log of {PAUSES} pauses and --target", used_s["log"], GOAL_S, "s", False
    yield "the same with as many outages as well", used_s["outages"], GOAL_S, "s", False
    yield "the same with a chart as PNG", used_s["png"], GOAL_S, "s", False
    yield f"-N 20 with {PAUSES} outages", used_s["many"], GOAL_S, "s", False
    yield "-N 1000 with as many pauses and outages, and --target", used_s["most"], GOAL_S, "s", False
