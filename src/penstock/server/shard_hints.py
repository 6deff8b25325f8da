"""The shard that a request most likely belongs to, found without verifying it.

A process that passes a request on need not verify its signature: the owner does. So the shard is read from what the
request claims: the URL of its queue, and the region that it is signed for. It may be wrong, for a forged request or
an unusual one. Then the owner of that shard finds out the right one, as for any other request.
"""

from __future__ import annotations

import msgspec

from penstock.cache import BoundedCache
from penstock.errors import QueueMissing
from penstock.names import QueueName, Space, is_account, is_region, shard_of
from penstock.server.callers import SIGNATURE_BYTES, claimed_credential
from penstock.server.http.request import Request
from penstock.services.sqs.limits import QUEUE_URL_LENGTH_MAX
from penstock.services.sqs.resources import read_url
from penstock.wire.json import JSON_TYPES
from penstock.wire.service import Fault

# A larger request is verified before it is passed on, too: requests of unknown clients must not fill the link.
_UNVERIFIED_BYTES_MAX = 64 * 1024
_CACHED_BYTES_MAX = 1024 * 1024
_UNKNOWN = -1
_ADMIN_QUEUE = b"/admin/v1/queues/"


class _NamesQueue(msgspec.Struct):
    QueueUrl: str | None = None


_decode = msgspec.json.Decoder(_NamesQueue).decode


class ShardHints:
    def __init__(self, shards: int, host_pattern: str, home: Space) -> None:
        """``host_pattern``: of queue URLs, if their host names the region. ``home``: of most callers."""
        self._shards = shards
        self._home = home
        self._host_pattern = host_pattern
        self._cache: BoundedCache[tuple[str, bytes], int] = BoundedCache(_CACHED_BYTES_MAX, _size_of)

    def shard_of(self, request: Request) -> int | None:
        """Returns the shard of a request; None if it has to be verified and decoded first. Only AWS JSON is looked
        at, which today's SDKs speak, and paths of the admin API."""
        headers = request.headers
        authorization = headers.get(b"authorization")
        if authorization is None or headers.get(b"content-type") not in JSON_TYPES:
            return self._of_path(request) if request.target.startswith(_ADMIN_QUEUE) else None
        if len(request.body) > _UNVERIFIED_BYTES_MAX:
            return None
        try:
            url = _decode(request.body).QueueUrl
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None  # it is answered like any request that cannot be decoded
        if url is None or len(url) > QUEUE_URL_LENGTH_MAX:
            return None
        key = url, authorization[:-SIGNATURE_BYTES]
        shard = self._cache.get(key)
        if shard is None:
            shard = self._cache.put(key, self._read(request, url))
        return None if shard == _UNKNOWN else shard

    def _of_path(self, request: Request) -> int | None:
        """A request of the admin API names its queue in the path, and most likely means one of the home account."""
        path, _, query = request.target.partition(b"?")
        if len(request.body) > _UNVERIFIED_BYTES_MAX or b"account=" in query:
            return None
        name = path[len(_ADMIN_QUEUE) :].partition(b"/")[0].decode("latin-1")
        key, *scope = claimed_credential(request).decode("utf-8", "replace").split("/")
        account = key if is_account(key) else self._home.account
        region = scope[1] if len(scope) == 4 and is_region(scope[1]) else self._home.region
        return shard_of(QueueName(account, region, name), self._shards)

    def _read(self, request: Request, url: str) -> int:
        # Credential scope: access key / date / region / service / aws4_request
        _, *scope = claimed_credential(request).decode("utf-8", "replace").split("/")
        if len(scope) != 4 or not is_region(scope[1]):
            return _UNKNOWN
        try:
            # A bare name belongs to the account of the caller, who is not known yet: no queue has that name then.
            return shard_of(read_url(url, "", scope[1], self._host_pattern), self._shards)
        except (QueueMissing, Fault):
            return _UNKNOWN


def _size_of(key: tuple[str, bytes]) -> int:
    return len(key[0]) + len(key[1])
