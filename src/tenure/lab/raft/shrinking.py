"""Making a seed that fails small: fewer kinds of faults, fewer servers, fewer strikes, and the same promise broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tenure.lab.faults import FAULTS
from tenure.lab.raft.seeds import HARRY, SIZES, Options, draw_setup, judge

WORLDS_MAX: Final = 400  # that are played for it: some seconds


def shrink(seed: int, options: Options, checker: str) -> Options:
    """Return the smallest options found under which ``checker`` still fails. Greedy: it may not be the smallest of all."""
    left = WORLDS_MAX

    def fails(smaller: Options) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and any(violation.checker == checker for violation in judge(seed, smaller).violations)

    while True:
        before = options
        for smaller in _simpler(seed, options):
            # Of what is left of it: the one before may have been taken.
            candidate = _joined(options, smaller)
            if draw_setup(seed, candidate) != draw_setup(seed, options) and fails(candidate):
                options = candidate
        options = _fewer_strikes(seed, options, fails)
        if options == before:
            return options


def _simpler(seed: int, options: Options) -> Sequence[Options]:
    """Return all that can be left out of it, one thing each."""
    setup = draw_setup(seed, options)
    # Once strikes are chosen by their numbers, no kind of them can be left out: the numbers would mean others.
    faults = (*FAULTS, HARRY) if options.strikes is None else ()
    return [
        *(Options(without=frozenset({fault})) for fault in faults),
        # The fewest last: each takes the place of the one before.
        *(Options(servers=count) for count in reversed(SIZES) if count < setup.plan.nodes and options.strikes is None),
        Options(pre_vote=False),
        Options(check_quorum=False),
    ]


def _joined(options: Options, smaller: Options) -> Options:
    return replace(
        options,
        without=options.without | smaller.without,
        servers=options.servers if smaller.servers is None else smaller.servers,
        pre_vote=options.pre_vote if smaller.pre_vote is None else smaller.pre_vote,
        check_quorum=options.check_quorum if smaller.check_quorum is None else smaller.check_quorum,
    )


def _fewer_strikes(seed: int, options: Options, fails: Callable[[Options], bool]) -> Options:
    """Leave out halves of the strikes, then quarters, and in the end single ones."""
    kept = options.strikes
    if kept is None:
        kept = tuple(range(len(draw_setup(seed, options).plan.strikes)))
    size = len(kept)
    while size:
        at = 0
        while at < len(kept):
            fewer = replace(options, strikes=kept[:at] + kept[at + size :])
            if fails(fewer):
                options, kept = fewer, kept[:at] + kept[at + size :]
            else:
                at += size
        size //= 2
    return options


def as_options(options: Options) -> str:
    """Return the options as words of a command line, each with a space before it."""
    words = [f"--mutant {options.mutant}"] if options.mutant else []
    words += [f"--without {','.join(sorted(options.without))}"] if options.without else []
    words += [f"--servers {options.servers}"] if options.servers is not None else []
    for name, value in (("pre-vote", options.pre_vote), ("check-quorum", options.check_quorum)):
        words += [] if value is None else [f"--{'' if value else 'no-'}{name}"]
    if options.strikes is not None:
        words.append(f"--strikes {','.join(str(number + 1) for number in options.strikes) or 'none'}")
    return "".join(f" {word}" for word in words)
