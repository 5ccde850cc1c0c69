"""Which servers are asked through the proxy of the environment, and which directly: as kubectl reads it."""

import pytest

from tenure.clients.kubernetes.access import proxy_for
from tenure.errors import ConfigError

SECRET = "hunter2"
PROXY = "http://proxy:1"


@pytest.fixture(autouse=True)
def proxied(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", PROXY)


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [
        ("10.96.0.0/12", True),
        ("example.org, 10.96.0.0/12", True),
        ("10.97.0.0/16", False),
        ("10.96.0.1", True),
        ("10.96.0.1:6443", True),
        ("10.96.0.1:443", False),
        ("10.96.0", False),
        ("*", True),
        ("", False),
        (",", False),
    ],
)
def test_a_server_is_asked_directly_if_its_address_or_network_is_named(
    monkeypatch: pytest.MonkeyPatch, exceptions: str, direct: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy_for("https://10.96.0.1:6443") == (None if direct else PROXY)


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [
        ("example", True),
        (".example", True),
        ("*.example", True),
        ("API.example", True),
        (".api.example", False),
        ("ample", False),
        ("10.96.0.0/12", False),
        ("api.example:443", True),
        ("api.example:1", False),
    ],
)
def test_a_server_is_asked_directly_if_a_domain_of_it_is_named(
    monkeypatch: pytest.MonkeyPatch, exceptions: str, direct: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy_for("https://api.example") == (None if direct else PROXY)


@pytest.mark.parametrize("exceptions", ["fd00::/8", "[fd00::1]", "[fd00::1]:6443", "fd00::1"])
def test_addresses_of_the_newer_kind_are_read_too(monkeypatch: pytest.MonkeyPatch, exceptions: str) -> None:
    monkeypatch.setenv("NO_PROXY", exceptions)
    assert proxy_for("https://[fd00::1]:6443") is None
    assert proxy_for("https://[fc00::1]:6443") == PROXY


@pytest.mark.parametrize("server", ["https://localhost:6443", "https://127.0.0.1:6443", "https://[::1]:6443"])
def test_no_proxy_is_between_us_and_our_own_machine(server: str) -> None:
    assert proxy_for(server) is None


def test_a_proxy_needs_no_scheme_and_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert proxy_for("https://api.example") == "http://proxy:3128"
    for wrong in ("proxy:port", "proxy..example:1", f"{'a' * 64}.example:1"):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{SECRET}@{wrong}")
        with pytest.raises(ConfigError, match=r"HTTPS_PROXY = .*: must be a proxy, as http://host:port") as error:
            proxy_for("https://api.example")
        assert SECRET not in str(error.value)
