"""Where no descriptor is left for a temporary file, who asks is told so, in an error of ours: it is tried again later."""

import asyncio
import resource
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tenure.clients.kubernetes.credentials import Plugin, present
from tenure.errors import ConfigError

VERSION = "client.authentication.k8s.io/v1"
PRINTS = f'print(\'{{"apiVersion": "{VERSION}", "status": {{"token": "abc"}}}}\')'


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_plugin_that_finds_no_file_to_answer_into_answers_once_there_is_one() -> None:
    async def story() -> None:
        plugin = Plugin(sys.executable, ["-c", PRINTS], {}, VERSION)
        with no_descriptor_left(), pytest.raises(ConfigError, match="needs a temporary file for its answer"):
            await plugin.headers()
        assert await plugin.headers() == {"Authorization": "Bearer abc"}

    asyncio.run(story())


def test_a_certificate_that_finds_no_file_to_lie_in_is_told() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with no_descriptor_left(), pytest.raises(ConfigError, match="client certificate = here: needs a temporary file"):
        present(context, b"certificate", b"key", "here")
    with pytest.raises(ConfigError, match="must be a certificate in PEM form"):
        present(context, b"certificate", b"key", "here")
