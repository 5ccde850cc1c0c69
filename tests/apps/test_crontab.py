"""A crontab is read whole or refused whole: one line names the job, the setting, the value and the rule."""

from pathlib import Path

import pytest

from tenure.apps.cron.crontab import FILE_BYTES_MAX, read_crontab
from tenure.apps.ledger.opening import open_ledger
from tenure.cli.cron_place import place_of
from tenure.errors import ConfigError
from tenure.stores.opening import SCHEMES

JOB = '[[job]]\nid = "j"\n'
RUN = f'{JOB}command = ["true"]\n'
EVERY = f'{RUN}every = "5m"\n'


def wrong(tmp_path: Path, text: str) -> str:
    file = tmp_path / "crontab.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_crontab(file, calls=True)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no job: each begins with a line [[job]]"),
        ("job = 3", "must be tables: each begins with a line [[job]]"),
        ("[job]\nid = 'j'", "must be tables"),
        ("job = [", "is not TOML"),
        (f"jobs = 3\n{EVERY}", "'jobs': is unknown: there are election, ledger"),
        (f"max_parallel = '3'\n{EVERY}", "max_parallel = '3': must be a whole number"),
        (f"max_parallel = -1\n{EVERY}", "max_parallel = -1: must be from 1 to 1000"),
        (f"history = 0\n{EVERY}", "history = 0: must be from 1 to 1000000"),
        (f"timezone = 'Mars/Base'\n{EVERY}", "timezone = Mars/Base: must be a time zone"),
        (f"election = ' '\n{EVERY}", "must be printable"),
        ('[[job]]\nevery = "5m"', "id of job 1 = None: must be a name in quotes"),
        ('[[job]]\nid = "a b"\ncommand = ["true"]\nevery = "5m"', "id of job a b = 'a b': must have 1 to 100 letters"),
        (EVERY + EVERY, "id = j: is that of two jobs: every 300s; every 300s"),
        (RUN, "schedule of job j = none: must be one of cron, every and at"),
        (f'{EVERY}cron = "0 0 * * *"', "schedule of job j = cron, every: must be one of"),
        (f'{RUN}cron = "61 0 * * *"', "cron of job j = 61 0 * * *: minute '61' (field 1) must be made of 0-59"),
        (f'{RUN}cron = "0 0 * * *"\ntimezone = "Mars/Base"', "timezone of job j = Mars/Base: must be a time zone"),
        (f"{RUN}cron = 5", "cron of job j = 5: must be a text in quotes"),
        (f'{RUN}every = "soon"', "every of job j = soon: must be a duration such as"),
        (f'{RUN}every = "1ms"', "every of job j = 1 ms: must be from 10 ms to 366 days"),
        (f'{RUN}at = "2026-12-01"', "must be a date and a time without quotes"),
        (f"{RUN}at = 2026-12-01T03:00:00", "must say where: 2026-12-01T03:00:00Z"),
        (f"{RUN}at = 9999-12-31T23:59:59-12:00", "at of job j = 9999-12-31T23:59:59-12:00: must be from 1970 to 9999"),
        (f"{RUN}at = 0001-01-01T00:00:00+14:00", "at of job j = 0001-01-01T00:00:00+14:00: must be from 1970 to 9999"),
        (f"{RUN}at = 9999-12-31T23:59:59.9999Z", "must be from 1970 to 9999"),
        (f"{RUN}at = 0001-01-01T00:00:00\ntimezone = 'Asia/Tokyo'", "must be from 1970 to 9999"),
        (f"{RUN}at = 9999-12-31T23:59:59\ntimezone = 'America/New_York'", "must be from 1970 to 9999"),
        (f'{JOB}every = "5m"', "command of job j = None: must be there, or else call"),
        (f'{EVERY}call = "a:b"', "and not both"),
        (f'{JOB}every = "5m"\ncommand = []', "must be a line for the shell, or a list of words"),
        (f'{JOB}every = "5m"\ncommand = ["a", 3]', "must be a line for the shell, or a list of words"),
        (f'{JOB}every = "5m"\ncommand = ["a", "b\\u0000"]', "command of job j = 'b\\x00': must have no NUL"),
        (f'{JOB}every = "5m"\ncommand = "echo \\u0000"', "command of job j = 'echo \\x00': must have no NUL"),
        (f'{JOB}every = "5m"\ncommand = [""]', "must name a program"),
        (f'{JOB}every = "5m"\ncall = "nowhere"', "call of job j = nowhere: must be module:function"),
        (f'{JOB}every = "5m"\ncall = "no_such_module:f"', "cannot be imported: ModuleNotFoundError"),
        (f'{JOB}every = "5m"\ncall = "broken:f"', "cannot be imported: ZeroDivisionError"),
        (f'{JOB}every = "5m"\ncall = "functions:none"', "must be a function that takes one argument, the Run"),
        (
            f'{JOB}every = "5m"\ncall = "functions:one"\ntimeout = "1s"',
            "timeout of job j = 1 s: needs an async function",
        ),
        (f'{EVERY}catch_up = "some"', "catch_up of job j = 'some': must be skip, latest or all"),
        (f"{EVERY}catch_up_limit = 0", "catch_up_limit of job j = 0: must be from 1 to 10000"),
        (f'{EVERY}overlap = "maybe"', "overlap of job j = 'maybe': must be wait, skip or allow"),
        (f"{EVERY}max_parallel = 3", "max_parallel of job j = 3: needs overlap = 'allow'"),
        (f"{EVERY}retries = 3", "retries of job j = 3: needs idempotent = true"),
        (f"{EVERY}retries = true", "retries of job j = True: must be a whole number"),
        (f'{EVERY}idempotent = "no"', "idempotent of job j = 'no': must be true or false"),
        (f'{EVERY}timeout = "0s"', "timeout of job j = 0 s: must be more than 0"),
        (f'{EVERY}output = "mail"', "output of job j = 'mail': must be keep or pass"),
        (f"{EVERY}colour = 1", "key of job j = 'colour': is unknown: there are id, command"),
        ("# " + "x" * FILE_BYTES_MAX, "must have at most"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    (tmp_path / "functions.py").write_text("def none(): ...\ndef one(run): ...")
    assert told in wrong(tmp_path, text)


@pytest.mark.parametrize(("name", "told"), [("nowhere.toml", "is not there"), (".", "must be a file")])
def test_what_is_no_file_is_told(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_crontab(tmp_path / name, calls=True)


def test_a_file_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    file = tmp_path / "crontab.toml"
    file.write_bytes(b'\xff[[job]]\nid = "j"')
    with pytest.raises(ConfigError, match="is not TOML: 'utf-8' codec can't decode"):
        read_crontab(file, calls=True)


def test_a_crontab_says_what_is_run_when_and_where(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text("async def hourly(run): ...")
    file = tmp_path / "nightly.toml"
    file.write_text(
        'timezone = "Europe/Berlin"\nledger = "postgresql://ada:hunter2@db/x"\n'
        f'{JOB}cron = "30 1 * * *"\ncommand = "dump | gzip"\n'
        '[[job]]\nid = "once"\nat = 2026-12-01T03:00:00\ntimezone = "Asia/Tokyo"\ncommand = ["dump", "-a"]\n'
        '[[job]]\nid = "call"\nevery = 3600\ncall = "work:hourly"\ntimeout = "5m"\njitter = "30s"'
    )
    found = read_crontab(file, calls=True)
    assert found.election == "cron/nightly"
    assert "hunter2" not in repr(found)
    assert [job.schedule.text for job in found.jobs] == [
        "30 1 * * * Europe/Berlin",
        "at 2026-11-30T18:00:00Z",
        "every 3600s",
    ]
    assert found.jobs[0].work == ("/bin/sh", "-c", "dump | gzip")
    assert found.jobs[1].work == ("dump", "-a")
    assert (found.jobs[2].timeout_s, found.jobs[2].jitter_s) == (300, 30)


def _is_ledger(url: str) -> bool:
    try:
        open_ledger(url)
    except ConfigError:
        return False
    return True


def test_every_store_that_can_be_a_ledger_is_one_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TENURE_LEDGER", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    file = tmp_path / "crontab.toml"
    file.write_text(EVERY)
    crontab = read_crontab(file, calls=False)
    servers = [url for scheme in SCHEMES if _is_ledger(url := f"{scheme}://ada@db1/prod")]
    assert {url.partition(":")[0] for url in servers} == {"postgresql", "postgres", "mysql", "mariadb"}
    for url in servers:
        assert place_of(crontab, ledger=None, store=url, config=None, accept_best_effort=None)[1] == url
    other = place_of(crontab, ledger=servers[0], store="etcd://h1", config=None, accept_best_effort=None)
    assert (other[0].store, other[1]) == ("etcd://h1", servers[0])
