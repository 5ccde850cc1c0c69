"""The stage of ``tenure demo``: its candidates, and how they are let pay."""

from dataclasses import dataclass
from pathlib import Path

from tenure.cli.demo.company import Company
from tenure.cli.demo.show import Show


@dataclass(frozen=True, slots=True)
class Scene:
    """What the candidates of a stage share: their store, their ledger, and how they write to it."""

    store: Path
    ledger: Path
    ttl_s: float
    fenced: bool


class Stage(Company):
    """The processes of a scene."""

    advice = "; on a busy machine, try a longer --ttl"

    def __init__(self, scene: Scene, act: int, show: Show) -> None:
        super().__init__(scene.ledger.parent, act, show, 3 * scene.ttl_s)
        self.scene = scene

    def start(self, name: str) -> None:
        """Start a candidate."""
        scene = self.scene
        fenced = ["--fenced"] if scene.fenced else []
        self.run(
            name, "tenure.cli.demo.candidate", name, str(scene.store), str(scene.ledger), str(scene.ttl_s), *fenced
        )

    def let_pay(self, name: str) -> None:
        """Let a candidate send the payment that it is ready for."""
        self.say_to(name, b"\n")
