"""Where a command's settings come from, and what is refused."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tenure.cli.settings import DURATION, settings_of
from tenure.errors import ConfigError
from tenure.timing import Timing

PASSWORD = "hunter2"
NOBODY = 65534


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the settings nor the state of whoever runs the tests."""
    for name in [name for name in os.environ if name.startswith("TENURE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("8", 8.0),
        ("0", 0.0),
        ("0.25", 0.25),
        ("30s", 30.0),
        ("500ms", 0.5),
        ("1m30s", 90.0),
        ("1m", 60.0),
        ("1.5h", 5400.0),
        ("1d2h3m4s5ms", 93784.005),
        (" 2s ", 2.0),
    ],
)
def test_a_duration_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", " ", "-3", "-3s", "soon", "1s1m", "1 m", "nan", "inf", "1e3", "s", "1ms1s", "٣s", "9" * 400]
)
def test_what_is_no_duration_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match="1m30s") as refused:
        DURATION.convert(text, None, None)
    assert len(str(refused.value)) < 200


def test_an_option_wins_over_the_environment_and_that_over_the_file_and_that_over_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    default = settings_of(store=None, config=None)
    file = write(tmp_path / "config" / "tenure" / "config.toml", 'store = "sqlite:///file.db"\nttl = "40s"\ngrace = 2')
    from_file = settings_of(store=None, config=None)
    monkeypatch.setenv("TENURE_STORE", "sqlite:///variable.db")
    monkeypatch.setenv("TENURE_TTL", "50s")
    monkeypatch.setenv("TENURE_GRACE", "3")
    from_variables = settings_of(store=None, config=file)
    from_options = settings_of(store="sqlite:///option.db", config=None, ttl=60, grace=4)
    found = [default, from_file, from_variables, from_options]
    assert [settings.store.rpartition("/")[2] for settings in found] == [
        "tenure.db",
        "file.db",
        "variable.db",
        "option.db",
    ]
    assert [settings.timing.ttl_ns / 1e9 for settings in found] == [8, 40, 50, 60]
    assert [settings.timing.grace_ns / 1e9 for settings in found] == [1, 2, 3, 4]
    assert [settings.store_is_given for settings in found] == [False, True, True, True]


def test_the_file_is_named_by_the_option_then_by_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "config" / "tenure" / "config.toml", "ttl = 10")
    monkeypatch.setenv("TENURE_CONFIG", str(write(tmp_path / "variable.toml", "ttl = 20")))
    option = write(tmp_path / "option.toml", "ttl = 30")
    assert settings_of(store=None, config=None).timing.ttl_ns == 20 * 10**9
    assert settings_of(store=None, config=option).timing.ttl_ns == 30 * 10**9


def test_an_empty_variable_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = settings_of(store=None, config=None)
    for name in ("STORE", "TTL", "GRACE", "CONFIG"):
        monkeypatch.setenv(f"TENURE_{name}", "")
    assert settings_of(store=None, config=None) == plain


def test_the_default_store_has_a_folder_that_is_the_users_alone(tmp_path: Path) -> None:
    found = settings_of(store=None, config=None)
    folder = tmp_path / "state" / "tenure"
    assert found.store == f"sqlite://{folder}/tenure.db"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.iterdir()) == []


def test_reading_makes_no_folder(tmp_path: Path) -> None:
    settings_of(store=None, config=None, reading=True)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_the_default_store_that_cannot_be_made_is_said_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("in the way", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be made .*--store"):
        settings_of(store=None, config=None)


def test_a_user_without_a_home_must_name_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    assert settings_of(store="sqlite:///named.db", config=None).store_is_given
    with pytest.raises(ConfigError, match="you have no home folder"):
        settings_of(store=None, config=None)
    assert list(tmp_path.iterdir()) == []


def test_settings_do_not_show_the_url_of_their_store() -> None:
    settings = settings_of(store=f"sqlite://ada:{PASSWORD}@cache/0", config=None)
    assert PASSWORD in settings.store
    assert PASSWORD not in repr(settings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("colour = 'red'", "unknown key 'colour': it may have store, ttl, grace"),
        ("[store]\nurl = 'x'", "store in FILE = dict: must be a URL in quotes"),
        ("store = 5", "store in FILE = int: must be a URL in quotes"),
        ("store = ''", "store in FILE = str: must be a URL in quotes"),
        ("ttl = true", "ttl in FILE = True: must be a duration"),
        ("ttl = [8]", "ttl in FILE = [8]: must be a duration"),
        ("grace = 'soon'", "grace in FILE = soon: must be a duration"),
        ("ttl = -3", "ttl in FILE = -3: must be a duration"),
        ("ttl = nan", "ttl in FILE = nan: must be a duration"),
        ("ttl = inf", "ttl in FILE = inf: must be a duration"),
        ("ttl = 1e300", "ttl in FILE = 1e+300: must be a duration"),
        ("ttl = 0", "ttl = 0 s: must be more than 0"),
        ("ttl = '30d'", "must satisfy 0.001 s <= ttl <= 604800 s"),
        ("grace = 60", "must satisfy renew_every + attempt_timeout + grace < ttl x (1 - drift)"),
        ("ttl = ", "FILE: is not TOML"),
        ("a = " + "[" * 5000, "FILE: is not TOML"),
        ("#" + " " * 70_000, "FILE: must have at most 65536 bytes"),
    ],
)
def test_a_file_that_cannot_work_is_refused_by_its_name_and_key(tmp_path: Path, content: str, said: str) -> None:
    file = write(tmp_path / "tenure.toml", content)
    with pytest.raises(ConfigError) as refused:
        settings_of(store=None, config=file)
    assert said in str(refused.value).replace(str(file), "FILE")


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tenure.toml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="is not TOML"):
        settings_of(store=None, config=file)


def test_a_file_may_begin_with_a_mark_of_its_byte_order(tmp_path: Path) -> None:
    file = tmp_path / "tenure.toml"
    file.write_text("ttl = 20", encoding="utf-8-sig")
    assert settings_of(store=None, config=file).timing.ttl_ns == 20 * 10**9


@pytest.mark.parametrize("named", ["gone.toml", ".", "gone/gone.toml", "nul\0.toml"])
def test_a_file_that_was_named_must_be_readable(tmp_path: Path, named: str) -> None:
    with pytest.raises(ConfigError, match="cannot be read: "):
        settings_of(store=None, config=tmp_path / named)


@contextmanager
def an_ordinary_user() -> Iterator[None]:
    """Root may read every file, so root is nobody for a moment."""
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_file_without_the_right_to_read_it_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path / "tenure.toml", "ttl = 8", mode=0)
    with an_ordinary_user(), pytest.raises(ConfigError, match="cannot be read: Permission denied"):
        settings_of(store=None, config=file)


@pytest.mark.parametrize("name", ["TENURE_TTL", "TENURE_GRACE"])
def test_a_variable_that_cannot_work_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "soon")
    with pytest.raises(ConfigError, match=f"^{name} = soon: must be a duration"):
        settings_of(store=None, config=None)


def test_a_store_that_lives_in_one_process_is_refused() -> None:
    with pytest.raises(ConfigError, match="memory://: lives in one process"):
        settings_of(store="memory://", config=None)


@pytest.mark.parametrize("url", ["tenure.db", "pigeon://loft"])
def test_what_no_command_can_use_is_refused_with_what_it_can(url: str) -> None:
    with pytest.raises(ConfigError, match="must begin with sqlite://") as refused:
        settings_of(store=url, config=None)
    assert "memory://" not in str(refused.value)


def test_what_is_no_url_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError, match="is not a URL") as refused:
        settings_of(store=f"redis://ada:{PASSWORD}@[::1", config=None)
    assert PASSWORD not in str(refused.value)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_file_with_a_password_that_others_can_read_is_warned_of_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    file = write(tmp_path / "tenure.toml", f'store = "sqlite://ada:{PASSWORD}@cache/0"', mode)
    settings_of(store=None, config=file)
    told = capsys.readouterr()
    assert re.fullmatch(r"tenure: warning: .* others can read it: chmod 600 .*tenure\.toml\n", told.err)
    assert PASSWORD not in told.out + told.err


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        (f"sqlite://ada:{PASSWORD}@cache/0", 0o600),
        ("sqlite:////var/lib/tenure.db", 0o644),
        ("sqlite:////var/lib/two  blanks.db ", 0o644),
        ("sqlite:////var/lib/\N{NO-BREAK SPACE}.db", 0o644),
    ],
)
def test_a_file_that_others_cannot_read_or_without_a_password_is_not_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, mode: int
) -> None:
    assert settings_of(store=None, config=write(tmp_path / "tenure.toml", f'store = "{url}"', mode)).store == url
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(("url", "ttl_s"), [("consul://h", 10), ("consuls://h", 10), ("etcd://h", 8), (None, 8)])
def test_the_lease_by_default_is_one_that_the_engine_gives_as_it_is_shipped(url: str | None, ttl_s: int) -> None:
    assert settings_of(store=url, config=None, reading=True).timing == Timing.of(ttl=ttl_s)
    assert settings_of(store=url, config=None, ttl=20, reading=True).timing == Timing.of(ttl=20)


@pytest.mark.parametrize(
    ("said", "accepted"),
    [
        ((None, "", ""), False),
        ((True, "0", "false"), True),
        ((None, "1", "false"), True),
        ((None, "no", "true"), False),
        ((None, "", "true"), True),
    ],
)
def test_best_effort_is_accepted_by_option_variable_and_file_in_this_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[bool | None, str, str], accepted: bool
) -> None:
    option, variable, told = said
    monkeypatch.setenv("TENURE_ACCEPT_BEST_EFFORT", variable)
    file = write(tmp_path / "tenure.toml", f"accept_best_effort = {told}" if told else "")
    settings = settings_of(store="redis://h1", config=file, accept_best_effort=option)
    assert settings.accept_best_effort is accepted


def test_what_is_neither_yes_nor_no_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="must be true or false"):
        settings_of(store=None, config=write(tmp_path / "tenure.toml", 'accept_best_effort = "yes"'))
    monkeypatch.setenv("TENURE_ACCEPT_BEST_EFFORT", "maybe")
    with pytest.raises(ConfigError, match="TENURE_ACCEPT_BEST_EFFORT"):
        settings_of(store=None, config=None)
