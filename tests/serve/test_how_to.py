"""What the pages on the sidecar show is what it does: commands are run, and configurations are those of the examples."""

import os
import re
import subprocess
from pathlib import Path

from tenure.serve.api import ROUTES
from tests.serve.outside import BEARER, staged

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
EXAMPLES = ROOT / "examples" / "sidecar"
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [found["text"] for found in _BLOCK.finditer(page.read_text()) if found["language"] == language]


def test_the_commands_of_the_page_lead_lock_and_ask(tmp_path: Path) -> None:
    shown = [text for text in blocks(DOCS / "how-to" / "lead-from-any-language.md", "sh") if "$SIDECAR" in text]
    assert len(shown) == 4
    with staged(tmp_path) as stage:
        sidecar = stage.start()
        named = {**os.environ, "SIDECAR": sidecar.url, "AUTH": f"Authorization: {BEARER['Authorization']}"}
        script = "\n".join(shown)
        ran = subprocess.run(
            ["bash", "-eu", "-c", script],  # noqa: S607  (whichever there is)
            env=named,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert '"token": 1' in ran.stdout


def test_the_configurations_of_the_page_are_those_of_the_examples() -> None:
    examples = [file.read_text() for file in (*EXAMPLES.glob("*.cfg"), *EXAMPLES.glob("*.conf"))]
    shown = blocks(DOCS / "how-to" / "put-a-load-balancer-in-front.md", "text")
    assert len(shown) == 3
    assert [text for text in shown if not any(text in example for example in examples)] == []


def test_the_reference_has_every_path_every_error_and_every_option() -> None:
    page = (DOCS / "reference" / "sidecar.md").read_text()
    paths = {route.path.replace("+", "").replace("{lock}", "{name}") for route in ROUTES}
    assert [path for path in paths if f" {path}`" not in page] == []
    source = "".join(file.read_text() for file in (ROOT / "src" / "tenure" / "serve").glob("*.py"))
    errors = set(re.findall(r'(?:Fault\(\s*\d+, |busy\()"([a-z-]+)"', source)) - {
        "internal",
        "gone",
        "no-such-file",
        "not-possible",
    }
    assert len(errors) > 15
    assert [error for error in errors if f"`{error}`" not in page] == []
    from tenure.cli.serve import command

    options = [option for parameter in command.params for option in parameter.opts]
    cli = (DOCS / "reference" / "cli.md").read_text()
    assert [option for option in options if option not in cli] == []
