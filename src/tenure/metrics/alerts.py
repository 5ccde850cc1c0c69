"""The alert rules, as the file that they are shipped as; and made to fit where they are used."""

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from tenure.errors import ConfigError

_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_URL: Final = re.compile(r"https?://[^\s\"'#\\]+")
# Where series are brought together, each time with the label that says which election, store or sink they are of.
_TOGETHER: Final = re.compile(r"\b(?P<how>by|on) \((?=store|sink)")


def rules(runbooks: str = "", by: Sequence[str] = ()) -> str:
    """Return the alert rules as YAML for Prometheus.

    ``runbooks`` is the URL of the folder that the pages of the runbooks are in; without it they are named as they are in the
    site. ``by`` are labels that tell elections of the same name and address apart, such as ``cluster``.
    """
    text = (files("tenure.metrics") / "rules" / "tenure.yml").read_text(encoding="utf-8")
    if runbooks:
        if not _URL.fullmatch(runbooks):
            raise ConfigError("runbooks", runbooks, "must be a URL that begins with http:// or https://")
        text = text.replace("runbook_url: runbooks/", f"runbook_url: {runbooks.rstrip('/')}/")
    for label in by:
        if not _LABEL.fullmatch(label):
            raise ConfigError("by", label, "must be the name of a label: letters, digits and underscores")
    if by:
        text = _TOGETHER.sub(rf"\g<how> ({', '.join(by)}, ", text)
    return text
