"""``tenure doctor`` on real stores: a SQLite file, clusters of etcd and ensembles of ZooKeeper, whole and broken."""

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sharing import TICK_MS
from tests.user import at_home

from tenure.stores.etcd.examine import BROKEN
from tenure.testing.engines import EngineFailed, EtcdCluster, Tls, ZooKeeperEnsemble

DEADLINE_S = 120.0
TENURE = [sys.executable, "-m", "tenure"]
# A quarter of what etcd gives its leader as shipped. For one member alone: several would elect anew while a machine is busy.
QUICK = ("--heartbeat-interval=50", "--election-timeout=250")
MIB = 2**20


class Desk:
    """One user with a home folder of their own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment = at_home(home, TERM="xterm-256color")

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [*TENURE, *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_S,
        )

    def examined(self, url: str, *options: str) -> "Examined":
        return Examined(self.run("doctor", "--store", url, "--json", *options))


class Examined:
    """What a doctor said."""

    def __init__(self, run: "subprocess.CompletedProcess[str]") -> None:
        assert run.stderr == ""
        self.code = run.returncode
        told = json.loads(run.stdout)
        self.store: str = told["store"]
        self.ttl_s: float = told["ttl_s"]
        self.findings: list[dict[str, Any]] = told["findings"]

    def of(self, subject: str) -> list[tuple[str, str]]:
        return [(one["level"], one["detail"]) for one in self.findings if one["subject"] == subject]

    def levels(self, subject: str) -> set[str]:
        """What was found of it; nothing, if it was not looked at."""
        return {level for level, _ in self.of(subject)}

    def not_good(self) -> set[tuple[str, str]]:
        return {(one["level"], one["subject"]) for one in self.findings if one["level"] != "good"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    (tmp_path / "home").mkdir()
    return Desk(tmp_path / "home")


# SQLite


def test_the_users_own_store_before_there_is_one_is_examined_without_making_it(desk: Desk) -> None:
    run = desk.run("doctor")
    assert (run.returncode, run.stderr) == (0, "")
    first, *_, last = run.stdout.splitlines()
    assert first == "good     file        not there yet: it is made when somebody first stands"
    assert last.startswith("elections will work at sqlite://")
    assert list(desk.home.iterdir()) == []


def test_a_file_is_examined_and_the_trial_leaves_nothing_in_it(desk: Desk) -> None:
    url = f"sqlite://{desk.home}/tenure.db"
    assert desk.run("lock", "billing", "--store", url, "-q", "--", "true").returncode == 0
    examined = desk.examined(url)
    assert (examined.code, examined.store, examined.ttl_s, examined.not_good()) == (0, url, 8.0, set())
    assert len(examined.of("latency")) == 2
    assert re.fullmatch(r"claimed and released in \d+\.\d ms, with token 2", examined.of("office")[0][1])
    assert len(examined.of("promise")) == 6
    listed = json.loads(desk.run("status", "--store", url, "--json").stdout)["elections"]
    assert [election["election"] for election in listed] == ["billing"]


def test_a_lease_that_the_store_does_not_give_is_exit_code_1(desk: Desk) -> None:
    url = f"sqlite://{desk.home}/tenure.db"
    assert desk.run("lock", "billing", "--store", url, "-q", "--", "true").returncode == 0
    run = desk.run("doctor", "--store", url, "--ttl", "50ms")
    assert (run.returncode, run.stderr) == (1, "")
    assert re.search(
        r"^bad +lease +a ttl of 0\.05 s is not given, only from 0\.1 s to 7 days", run.stdout, re.MULTILINE
    )
    assert run.stdout.splitlines()[-1] == f"elections will not work at {url}: 1 bad, 0 warnings"


def test_a_store_that_was_named_and_is_not_there_is_refused_and_not_made(desk: Desk) -> None:
    run = desk.run("doctor", "--store", f"sqlite://{desk.home}/slip.db")
    assert (run.returncode, run.stdout) == (2, "")
    assert "is missing or empty" in run.stderr
    assert len(run.stderr.splitlines()) == 1
    assert list(desk.home.iterdir()) == []


def test_on_a_terminal_it_is_a_table(desk: Desk) -> None:
    master, slave = pty.openpty()
    with subprocess.Popen(
        [*TENURE, "doctor"], env=desk.environment, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # What Linux says when the other side has closed.
                break
            if not chunk:
                break
            shown += chunk
        os.close(master)
        assert process.wait(DEADLINE_S) == 0
    assert b"\x1b[32mgood" in shown
    assert b"not there yet" in shown


# etcd


def of_its_version(cluster: EtcdCluster | ZooKeeperEnsemble) -> set[tuple[str, str]]:
    """What is said of the version alone: Debian's etcd may end leases that were renewed."""
    return {("warning", "version")} if cluster.engine == "etcd" and cluster.binary.version in BROKEN else set()


def test_a_healthy_etcd_is_found_so_and_the_trial_leaves_nothing_in_it(desk: Desk, etcd: EtcdCluster) -> None:
    examined = desk.examined(etcd.url)
    assert (examined.code, examined.not_good()) == (0, of_its_version(etcd))
    assert examined.of("members") == [("good", "3 of the 3 that the URL names answer")]
    assert examined.of("quorum") == [("good", "3 voting members: 1 may fail")]
    ((level, version),) = examined.of("version")
    assert level == ("warning" if of_its_version(etcd) else "good")
    assert version.startswith(etcd.binary.version)
    assert examined.of("leader") == [("good", etcd.leader().name)]
    assert examined.of("alarms") == [("good", "none")]
    assert examined.of("lease") == [("good", "the engine gives 2 s or more, so a ttl of 8 s is kept")]
    assert len(examined.of("latency")) == 3
    for subject in ("space", "clock", "encryption", "office", "promise"):
        assert examined.levels(subject) == {"good"}, subject
    assert len(examined.of("promise")) == 6
    assert ("good", "tokens come from the create revision of the holder's own key") in examined.of("promise")
    assert etcd.ctl("get", "tenure-doctor", "--prefix", "--keys-only").strip() == ""


def test_an_etcd_that_lengthens_the_lease_is_warned_of(desk: Desk, etcd: EtcdCluster) -> None:
    examined = desk.examined(etcd.url, "--ttl", "1s")
    # So short a lease makes demands on the disk that a busy machine does not meet, and that is said as well.
    found = examined.not_good() - {("warning", "latency")}
    assert (examined.code, found) == (0, {("warning", "lease"), *of_its_version(etcd)})


def test_a_url_that_names_one_member_of_three_is_warned_of(desk: Desk, etcd: EtcdCluster) -> None:
    examined = desk.examined(f"etcd://{etcd.endpoints[0]}")
    assert (examined.code, examined.not_good()) == (0, {("warning", "members"), *of_its_version(etcd)})


def test_what_is_left_of_an_etcd_is_examined_until_nothing_answers(desk: Desk) -> None:
    with EtcdCluster() as cluster:
        gone = cluster.nodes[0]
        gone.kill()
        cluster.leader()
        degraded = desk.examined(cluster.url)
        assert (degraded.code, degraded.not_good()) == (0, {("warning", "members"), *of_its_version(cluster)})
        assert re.search(rf"2 of the 3 .*{gone.endpoint}.*nobody listens", degraded.of("members")[0][1])
        cluster.nodes[1].kill()
        undecided = desk.examined(cluster.url)
        assert undecided.code == 1
        assert ("bad", "quorum") in undecided.not_good()
        assert undecided.of("members")[0][1].startswith("1 of the 3 that the URL names answer; ")
        assert undecided.of("office") == []
        cluster.nodes[2].kill()
        run = desk.run("doctor", "--store", cluster.url)
    assert (run.returncode, run.stdout) == (69, "")
    assert len(run.stderr.splitlines()) == 1
    assert all(endpoint in run.stderr for endpoint in cluster.endpoints)


def test_a_frozen_member_does_not_keep_the_doctor(desk: Desk) -> None:
    with EtcdCluster() as cluster:
        frozen = next(node for node in cluster.nodes if node is not cluster.leader())
        frozen.pause()
        examined = desk.examined(cluster.url)
        frozen.resume()
    assert (examined.code, examined.not_good()) == (0, {("warning", "members"), *of_its_version(cluster)})
    assert re.search(rf"{frozen.endpoint}.*no answer", examined.of("members")[0][1])


def test_a_learner_is_told_and_not_counted_among_those_who_decide(desk: Desk) -> None:
    with EtcdCluster(1, options=QUICK) as cluster:
        cluster.ctl("member", "add", "pupil", "--learner", "--peer-urls=http://127.0.0.1:1")
        examined = desk.examined(cluster.url)
    (decide, learns) = examined.of("quorum")
    assert decide == ("warning", "1 voting member: none may fail")
    assert learns[0] == "warning"
    assert learns[1].endswith(" is a learner, and has no vote")


def fill(cluster: EtcdCluster) -> None:
    for at in range(20):
        cluster.ctl("put", f"ballast/{at}", stdin="x" * MIB)


def test_a_full_etcd_is_bad(desk: Desk) -> None:
    with EtcdCluster(1, options=(*QUICK, f"--quota-backend-bytes={8 * MIB}")) as cluster:
        with pytest.raises(EngineFailed, match="database space exceeded"):
            fill(cluster)
        examined = desk.examined(cluster.url)
    assert examined.code == 1
    assert examined.of("alarms") == [("bad", "NOSPACE")]
    assert examined.levels("office") == {"bad"}


def test_a_user_with_rights_to_some_names_only_is_told_where_elections_work(desk: Desk) -> None:
    with EtcdCluster(1, options=QUICK) as cluster:
        for command in (
            "user add root:hunter2",
            "user grant-role root root",
            "user add ada:hunter2",
            "role add books",
            "user grant-role ada books",
            "role grant-permission books --prefix=true readwrite books/",
            "auth enable",
        ):
            cluster.ctl(*command.split())
        everywhere = desk.examined(f"etcd://ada:hunter2@{cluster.endpoints[0]}")
        in_books = desk.examined(f"etcd://ada:hunter2@{cluster.endpoints[0]}/books")
    (office,) = (finding for finding in everywhere.findings if finding["subject"] == "office")
    assert (everywhere.code, office["level"]) == (1, "bad")
    assert "permission denied" in office["detail"]
    assert "put what they begin with into the URL" in office["advice"]
    assert (in_books.code, in_books.not_good()) == (0, {("warning", "quorum"), *of_its_version(cluster)})


@pytest.mark.parametrize("kind", [EtcdCluster, ZooKeeperEnsemble], ids=lambda kind: kind.engine)
def test_over_tls_the_end_of_each_certificate_is_told(
    desk: Desk, kind: type[EtcdCluster] | type[ZooKeeperEnsemble], tmp_path: Path
) -> None:
    tls = Tls(tmp_path, clients_need_certificates=True)
    with kind(1, tls=tls) as cluster:
        client = f"?ca={tls.ca}&cert={tls.client.certificate}&key={tls.client.key}"
        examined = desk.examined(cluster.url + client)
    assert (examined.code, examined.not_good()) == (0, {("warning", "quorum"), *of_its_version(cluster)})
    (encryption,) = examined.of("encryption")
    assert re.fullmatch(
        rf"TLS; the certificate of {cluster.endpoints[0]} ends on \d{{4}}-\d\d-\d\d, in \d+ days", encryption[1]
    )
    assert examined.store == cluster.url


# ZooKeeper


def test_a_healthy_zookeeper_is_found_so_and_the_trial_leaves_nothing_in_it(
    desk: Desk, zookeeper: ZooKeeperEnsemble
) -> None:
    examined = desk.examined(f"{zookeeper.url}/doctored", "--ttl", "5s")
    assert (examined.code, examined.not_good()) == (0, set())
    assert examined.of("members") == [("good", "3 of the 3 that the URL names answer")]
    assert examined.of("quorum") == [("good", "3 voting members: 1 may fail")]
    assert examined.of("version") == [("good", zookeeper.binary.version)]
    assert examined.of("leader") == [("good", zookeeper.leader().endpoint)]
    assert re.fullmatch(r"the engine's clock is 0\.\d s (ahead of|behind) ours", examined.of("clock")[0][1])
    assert len(examined.of("latency")) == 2
    for subject in ("clock", "encryption", "office", "promise"):
        assert examined.levels(subject) == {"good"}, subject
    assert len(examined.of("promise")) == 6
    assert any("czxid" in promise for _, promise in examined.of("promise"))
    assert json.loads(desk.run("status", "--store", f"{zookeeper.url}/doctored", "--json").stdout)["elections"] == []


def test_a_lease_that_the_ensemble_does_not_give_is_bad(desk: Desk, zookeeper: ZooKeeperEnsemble) -> None:
    examined = desk.examined(f"{zookeeper.url}/doctored", "--ttl", "1h")
    assert (examined.code, examined.not_good()) == (1, {("bad", "lease")})
    assert examined.of("lease")[0][1] == "a ttl of 3600 s is not given, only from 0.3 s to 5.4 s"


def test_what_is_left_of_a_zookeeper_is_examined_until_nothing_answers(desk: Desk) -> None:
    with ZooKeeperEnsemble(tick_ms=TICK_MS) as ensemble:
        gone = next(node for node in ensemble.nodes if node is not ensemble.leader())
        gone.kill()
        degraded = desk.examined(ensemble.url, "--ttl", "5s")
        assert (degraded.code, degraded.not_good()) == (0, {("warning", "members")})
        assert gone.endpoint in degraded.of("members")[0][1]
        ensemble.leader().kill()
        undecided = desk.examined(ensemble.url, "--ttl", "5s")
        assert undecided.code == 1
        assert ("bad", "quorum") in undecided.not_good()
        assert undecided.of("members")[0][1].startswith("1 of the 3 that the URL names answer; ")
        (last,) = (node for node in ensemble.nodes if node.running)
        last.kill()
        run = desk.run("doctor", "--store", ensemble.url)
    assert (run.returncode, run.stdout) == (69, "")
    assert len(run.stderr.splitlines()) == 1
    assert all(endpoint in run.stderr for endpoint in ensemble.endpoints)
