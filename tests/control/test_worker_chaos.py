"""A worker that is killed at any moment, while leaders succeed each other: what was acknowledged is carried out, once."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from random import Random

import anyio

from tenure.apps.control import Delivery, HttpChannel
from tenure.errors import StaleToken, StoreError
from tests.control.test_orders import by
from tests.control.test_worker_process import rows, wait_until

KILLS = int(os.environ.get("TENURE_WORKER_KILLS", "6"))


class Mortal:
    """A worker that is killed after a random time and started again, with the URL that it has now."""

    def __init__(self, folder: Path, chance: Random) -> None:
        self._folder, self._chance, self.url, self.kills = folder, chance, "", 0
        self.began, self.over = threading.Event(), threading.Event()

    def live(self) -> None:
        command = [sys.executable, "-m", "tests.control.worker_process", str(self._folder)]
        while not self.over.is_set():
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout
                self.url = process.stdout.readline().strip()
                self.began.set()
                self.over.wait(None if self.kills >= KILLS else self._chance.uniform(0.05, 0.4))
                os.kill(process.pid, signal.SIGKILL)
                self.kills += 1


def test_what_was_acknowledged_is_carried_out_once_whenever_the_worker_is_killed(tmp_path: Path) -> None:
    chance = Random(1)
    mortal = Mortal(tmp_path, chance)
    life = threading.Thread(target=mortal.live)
    life.start()
    acknowledged, token, refused = set[str](), 1, 0

    async def give(token: int, ids: list[str]) -> bool:
        try:
            delivery = Delivery.of(dict.fromkeys(ids, 1))
            receipt = await HttpChannel(mortal.url, timeout_s=2).deliver(by(token), delivery)
        except StoreError:  # killed before it answered, or gone: nobody knows
            await anyio.sleep(0.02)
            return False
        assert {*receipt.accepted, *receipt.known, *receipt.over} == set(ids)
        return True

    try:
        assert mortal.began.wait(60)
        while mortal.kills < KILLS or len(acknowledged) < 10 * KILLS:
            ids = [f"order {len(acknowledged) + offset}" for offset in range(3)]
            if not anyio.run(give, token, ids):
                continue  # and the same again
            acknowledged.update(ids)
            if chance.random() < 0.3:
                token += 1
                anyio.run(give, token, [])  # The next leader is heard, or not: the worker may be dead.
                try:
                    anyio.run(give, token - 1, [f"late {token}"])
                except StaleToken:
                    refused += 1
        done = "SELECT id FROM carried_out WHERE id LIKE 'order %'"
        wait_until(lambda: {row[0] for row in rows(tmp_path / "journal.db", done)} >= acknowledged)
    finally:
        mortal.over.set()
        life.join()
    carried_out = [row[0] for row in rows(tmp_path / "journal.db", done)]
    assert len(carried_out) == len(set(carried_out)), "carried out twice"
    taken = rows(tmp_path / "journal.db", "SELECT token FROM tenure_order ORDER BY came")
    assert taken == sorted(taken), "an order of an older leader was taken after one of a newer"
    assert refused, "no old leader was refused, so nothing was shown"
    print(f"{mortal.kills} kills, {len(acknowledged)} orders acknowledged, {token} leaders, {refused} refused")
