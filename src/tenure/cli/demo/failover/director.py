"""The director of the failover: four stories at once, each with a store, a leader, a standby, two workers and a client of its own.

A leader is struck when it holds a delivery that it is about to send, right after its lease was renewed: that makes the delivery as late as
one can be, and the time until it is missed as long as it can be.
"""

import http.client
import json
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

from tenure import sync
from tenure.cli.demo.company import Company, folder_of_the_demo
from tenure.cli.demo.failover.setting import ELECTION, SCENARIOS, WORKERS, Pace, Scenario, create_feed
from tenure.cli.demo.happening import Happening, StoryBroken, What
from tenure.cli.demo.show import Audience
from tenure.errors import StoreError

_MODULE = "tenure.cli.demo.failover"


def play(pace: Pace, show: Audience) -> tuple[list[Happening], list[str]]:
    """Play all four stories; return their histories, and why those ended early that did."""
    with folder_of_the_demo() as folder, ThreadPoolExecutor(len(SCENARIOS)) as pool:
        stories = [_Story(folder / str(scenario.number), scenario, pace, show) for scenario in SCENARIOS]
        try:
            broken = list(pool.map(_Story.play, stories))
        finally:
            for story in stories:  # Somebody interrupted: the others have nobody to play for.
                story.stop()
        return [found for story in stories for found in story.company.history], [why for why in broken if why]


class _Story:
    def __init__(self, folder: Path, scenario: Scenario, pace: Pace, show: Audience) -> None:
        folder.mkdir()
        create_feed(folder / "feed.db")
        self._folder, self._scenario, self._pace = folder, scenario, pace
        patience_s = 2 * (pace.cold.total_s + pace.reserve_s)
        self.company = Company(folder, scenario.number, show, patience_s)
        self._over = threading.Event()

    def stop(self) -> None:
        self._over.set()
        self.company.abandon()

    def play(self) -> str | None:
        """Play it; return why it ended early, if it did."""
        client = threading.Thread(target=self._ask, daemon=True)
        try:
            with self.company:
                try:
                    self._begin()
                    client.start()
                    self._fall()
                finally:
                    self._over.set()
                    if client.is_alive():
                        client.join()
                self._audit()
        except StoryBroken as error:
            return f"{self._scenario.name}: {error}"
        return None

    def _begin(self) -> None:
        company = self.company
        self._workers = []
        for name in WORKERS:
            (self._folder / name).mkdir()
            company.run(name, f"{_MODULE}.worker", str(self._folder / name))
        for name in WORKERS:
            url = self._wait(name, What.LISTENS).more["url"]
            self._workers += ["--worker", f"{name}={url}"]
        self._stand("A", "--first")
        self._wait("A", What.DELIVERED, "the first orders")
        self._stand("B")
        self._wait("B", What.WAITS, "B to stand by")

    def _stand(self, name: str, *options: str) -> None:
        places = (str(self._folder / "store.db"), str(self._folder / "feed.db"))
        arguments = (*places, str(self._pace.factor), self._scenario.standby, *options, *self._workers)
        self.company.run(name, f"{_MODULE}.candidate", *arguments)

    def _fall(self) -> None:
        company = self.company
        company.say_to("A", b"h")
        ready = company.wait_for(_that("A", What.READY), "A to get a delivery ready", since=len(company.history))
        company.wait_for(_that("A", What.RENEWED), "A to renew", since=len(company.history))
        struck = len(company.history)
        company.strike("A", What.KILLED if self._scenario.fault == "killed" else What.FROZEN, ready)
        leads = company.wait_for(_that("B", What.LEADS), "B to be elected", since=struck)
        for name in WORKERS:
            company.wait_for(_that("B", What.DELIVERED, worker=name), f"{name} to hear of B", since=struck)
        company.wait_for(_that("client", What.ANSWERED, token=leads.token), "the client to find B", since=struck)
        if self._scenario.fault == "frozen":
            woken = len(company.history)
            company.say_to("A", b"g")  # It lies in its pipe when it wakes: it sends what it had ready.
            company.strike("A", What.WOKEN, ready)
            for name in WORKERS:
                judged = (What.REFUSED, What.DELIVERED)
                company.wait_for(_that("A", *judged, worker=name), f"{name} to judge the late order", since=woken)
        company.watch_until(company.now() + 10**9, "one more second of work")

    def _wait(self, who: str, what: What, meaning: str = "") -> Happening:
        return self.company.wait_for(_that(who, what), meaning or f"{who}: {what}")

    def _ask(self) -> None:
        """Be a client: look up who leads, and ask it. Runs on a thread of its own."""
        seen = 0
        with sync.open_store(f"sqlite://{quote(str(self._folder / 'store.db'))}") as store:
            election = sync.Election(store, ELECTION)
            while not self._over.wait(self._pace.round_s):
                try:
                    incumbent = election.incumbent()
                except StoreError:
                    continue
                token = None if incumbent is None else _asked(incumbent.advertised)
                if token is not None and token != seen:
                    seen = token
                    self.company.heard("client", What.ANSWERED, token=token)

    def _audit(self) -> None:
        """Look at what the workers have on disk, when all of them are gone."""
        for name in WORKERS:
            folder = self._folder / name
            executions = _rows(folder / "record.db", "SELECT due_ns, at_ns, token FROM execution ORDER BY due_ns")
            orders = _rows(folder / "journal.db", "SELECT id, token FROM tenure_order ORDER BY came")
            (highest,) = _rows(folder / "journal.db", "SELECT highest FROM tenure_fence")[0]
            self.company.happened(What.AUDITED, name, executions=executions, orders=orders, highest=highest)


def _that(who: str, *whats: What, worker: str | None = None, token: int | None = None) -> Callable[[Happening], bool]:
    def is_that(found: Happening) -> bool:
        if found.who != who or found.what not in whats:
            return False
        return worker in (None, found.more.get("worker")) and token in (None, found.token)

    return is_that


def _asked(url: str) -> int | None:
    """Ask a leader; None if it does not answer, or not as a leader."""
    split = urlsplit(url)
    link = http.client.HTTPConnection(split.hostname or "", split.port or 0, timeout=1)
    try:
        link.request("GET", "/")
        answer = link.getresponse()
        said = json.loads(answer.read())
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        link.close()
    token = said["token"] if answer.status == 200 else None  # noqa: PLR2004
    return token if isinstance(token, int) else None


def _rows(path: Path, query: str) -> list[tuple[int, ...]]:
    found = sqlite3.connect(path)
    try:
        return found.execute(query).fetchall()
    finally:
        found.close()
