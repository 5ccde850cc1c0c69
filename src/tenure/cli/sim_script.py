"""``tenure sim --script``: step one candidate through a story and say where it does something else."""

import json
from pathlib import Path

import click

from tenure.testing.script import load, run


def run_script(path: Path, *, as_json: bool) -> int:
    """Print each line's effects, or one object; returns 1 if a line differs from what the script expects."""
    script = load(path)
    outcome = run(script)
    if as_json:
        differs = [{"where": m.where, "expected": m.expected, "actual": m.actual} for m in outcome.mismatches]
        click.echo(json.dumps({"script": script.path, "lines": len(script.lines), "mismatches": differs}))
    else:
        for line, actual in zip(script.lines, outcome.actual, strict=True):
            click.echo(f"{line.words} → {actual}")
        for mismatch in outcome.mismatches:
            click.echo(f"DIFFERS {mismatch}")
    return 1 if outcome.mismatches else 0
