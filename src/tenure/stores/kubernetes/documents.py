"""Documents in Kubernetes: one ConfigMap each, whose resourceVersion is the version. Read and written as the cluster decides it.

Document ``x`` is the ConfigMap ``tenure-document.x``, spelled as the name of a Lease would be. Not an annotation of a Lease: those
have 256 KiB all together. An annotation is drawn anew with each write, because the API server does not count one that changes nothing.
"""

from abc import ABC, abstractmethod
from base64 import b64decode, b64encode
from binascii import Error
from secrets import token_hex
from typing import Final

from tenure.clients.kubernetes import Conflict as NotAsSeen
from tenure.clients.kubernetes import KubernetesClient, NotThere, Settings
from tenure.clients.kubernetes.client import Object
from tenure.errors import Refused
from tenure.model import Conflict, Document, Version
from tenure.stores.documents import swapped
from tenure.stores.kubernetes.names import NAME_MAX, lease_for

_PREFIX: Final = "tenure-document."
_DATA: Final = "document"


class DocumentKeeper(ABC):
    """The part of the store that keeps documents."""

    def __init__(self, client: KubernetesClient, settings: Settings) -> None:
        self.client, self.settings = client, settings

    @property
    def address(self) -> str:
        return self.settings.address

    async def fetch(self, key: str) -> Document | None:
        self._check_open("fetch")
        name = self._name(key, "fetch")
        try:
            found = await self.client.get(f"{self._config_maps}/{name}", operation="fetch")
        except NotThere:
            return None
        return self._read(self.client.named(found, name, "fetch"), name)

    async def swap(self, key: str, value: bytes, version: Version | None) -> Document | Conflict:
        self._check_open("swap")
        return await swapped(self, self._write_document, key, value, version)

    @abstractmethod
    def _check_open(self, operation: str) -> None:
        """Refuse to do anything for a store that is not open."""

    @property
    def _config_maps(self) -> str:
        return f"/api/v1/namespaces/{self.settings.namespace}/configmaps"

    async def _write_document(self, key: str, value: bytes, version: Version | None) -> Version | None:
        """Write a document at this version. None: it is at another one."""
        name = self._name(key, "swap")
        metadata: Object = {
            "name": name,
            "labels": {"app.kubernetes.io/managed-by": "tenure"},
            "annotations": {"tenure/write": token_hex(8)},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        body["binaryData"] = {_DATA: b64encode(value).decode()}
        try:
            if version is None:
                written = await self.client.create(self._config_maps, body, operation="swap")
            else:
                metadata["resourceVersion"] = version
                written = await self.client.replace(f"{self._config_maps}/{name}", body, operation="swap")
        except NotAsSeen:
            return None
        except NotThere:
            if version is None:
                raise  # It is the namespace that is not there.
            return None
        return Version(str(self.client.named(written, name, "swap")["metadata"]["resourceVersion"]))

    def _read(self, found: Object, name: str) -> Document:
        try:
            value = b64decode((found.get("binaryData") or {})[_DATA], validate=True)
        except (KeyError, TypeError, Error) as error:
            detail = f"the ConfigMap {name} has no {_DATA}: it was edited by hand, or is another program's"
            raise Refused(self.client.address, "fetch", detail) from error
        return Document(value, Version(str(found["metadata"]["resourceVersion"])))

    def _name(self, key: str, operation: str) -> str:
        name = f"{_PREFIX}{lease_for(key)}"
        if len(name) > NAME_MAX:
            detail = f"{key[:20]!r}… has {len(name)} characters as the name of a ConfigMap, and {NAME_MAX} are allowed: use a shorter one"
            raise Refused(self.client.address, operation, detail)
        return name
