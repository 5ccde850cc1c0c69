"""Making a failing seed small: fewer faults, fewer candidates, the same promise broken."""

from dataclasses import replace

from tenure.sim.plan import CANDIDATES_MIN, FAULTS, Options, draw
from tenure.sim.run import judge


def shrink(options: Options, checker: str, mutant: str | None = None) -> Options:
    """Return the smallest options found under which ``checker`` still fails. Greedy: it may not be the smallest of all."""

    def fails(smaller: Options) -> bool:
        return any(violation.checker == checker for violation in judge(smaller, mutant).violations)

    while True:
        before = options
        for fault in FAULTS:
            smaller = replace(options, without=options.without | {fault})
            if draw(smaller) != draw(options) and fails(smaller):
                options = smaller
        count = draw(options).candidates
        while count > CANDIDATES_MIN and fails(fewer := replace(options, candidates=count - 1)):
            options, count = fewer, count - 1
        if options == before:
            return options


def command(options: Options, mutant: str | None, *extra: str) -> str:
    """Return the command that replays these options."""
    words = ["tenure sim", f"--seed {options.seed}"]
    if options.without:
        words.append("--without " + ",".join(fault for fault in FAULTS if fault in options.without))
    if options.candidates is not None:
        words.append(f"--candidates {options.candidates}")
    if options.wild_clocks:
        words.append("--wild-clocks")
    if options.timing is not None:
        words.append(f"--ttl {options.timing.ttl_ns / 1e9!r} --heartbeat {options.timing.renew_every_ns / 1e9!r}")
        words.append(f"--misses {options.timing.misses}")
    if mutant is not None:
        words.append(f"--mutant {mutant}")
    return " ".join([*words, *extra])
