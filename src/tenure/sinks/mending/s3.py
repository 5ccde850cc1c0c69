"""The fences of a prefix in a bucket. Lowering is one conditional put of the manifest, which has the record in it."""

import random
import time
from typing import Final

from tenure.errors import ConfigError, Refused, redact
from tenure.sinks.repairing import Fences, Repair, no_fences
from tenure.sinks.s3.bucket import Bucket, connect_to
from tenure.sinks.s3.manifest import MANIFEST_MAX_BYTES, written

_WITHIN_S: Final = 30.0
_PAUSE_S: Final = 0.02


class S3Fences:
    """See ``Mendable``. Credentials, region and endpoint are those that boto3 finds, such as AWS_ENDPOINT_URL."""

    def __init__(self, url: str) -> None:
        bucket, _, prefix = url.partition("://")[2].partition("/")
        if not bucket or set(bucket) & set("@:?#") or (prefix and not prefix.endswith("/")):
            rule = "must be s3://bucket/prefix/ with a slash at its end, or s3://bucket/; credentials are boto3's"
            raise ConfigError("target", redact(url), rule)
        self._bucket = Bucket(bucket, prefix, connect_to(None))

    def look(self) -> Fences:
        manifest = self._bucket.look("read").manifest
        if not manifest.highest and not manifest.repairs:
            raise no_fences(self._bucket.name)
        return Fences(dict(manifest.highest), manifest.repairs)

    def lower(self, repair: Repair) -> None:
        until = time.monotonic() + _WITHIN_S
        while True:
            seen = self._bucket.look("repair")
            after = seen.manifest.repaired(repair).signed()
            if len(written(after)) > MANIFEST_MAX_BYTES:
                raise ConfigError("prefix", f"{len(after.objects)} objects", "has too many: nothing more fits")
            if self._bucket.swapped(seen, after, "repair"):
                return
            if time.monotonic() >= until:
                raise Refused(self._bucket.name, "repair", f"others were quicker for {_WITHIN_S:g} s")
            time.sleep(random.uniform(0, _PAUSE_S))
