"""Resources as kubectl names them: ``configmaps``, ``deployments.apps``, ``deployments.v1.apps``, and one object of them with a slash."""

import re
from dataclasses import dataclass
from typing import Final

from tenure.errors import ConfigError

_RESOURCE: Final = re.compile(
    r"(?P<plural>[a-z0-9-]+)(?:\.(?P<version>v\d+(?:(?:alpha|beta)\d+)?))?(?:\.(?P<group>[a-z0-9.-]+))?(?:/(?P<name>[a-z0-9{}.-]+))?"
)


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object, or one object of it."""

    plural: str
    group: str  # empty: the core's
    version: str
    name: str  # empty: any

    @property
    def is_config_map(self) -> bool:
        return (self.group, self.plural) == ("", "configmaps")

    def path(self, namespace: str, name: str = "") -> str:
        """Return where the objects of a namespace are, or one of them."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


def resource_of(text: str) -> Resource:
    """Return what ``text`` names. Raises ConfigError if it cannot be a resource."""
    found = _RESOURCE.fullmatch(text)
    if found is None:
        rule = "must be a resource as kubectl names it, such as configmaps/books or deployments.apps/web"
        raise ConfigError("resource", text, rule)
    return Resource(found["plural"], found["group"] or "", found["version"] or "v1", found["name"] or "")
