"""The keys to sign with at this moment: those that were found, or temporary ones, replaced before they end.

While one request fetches new keys, others sign with the old ones as long as they are valid.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf
from typing import NamedTuple, Protocol

from penstock.client.credentials import (
    KeysOfProgram,
    KeysOfRole,
    KeysOfWebIdentity,
    KeySource,
    ProfileError,
    SigningKeys,
)
from penstock.client.errors import ApiError, Unavailable
from penstock.client.http.exchange import Network

_REFRESH_S_BEFORE = 300.0  # of their end; at most a quarter of their life
_RETRY_S = 30.0  # after new keys could not be had


class IssuedKeys(NamedTuple):
    keys: SigningKeys
    expires_s: float = inf


class Sts(Protocol):
    """A session with STS, signed with the keys that may assume the role."""

    async def form(self, service: str, form: bytes) -> bytes: ...


OpenSts = Callable[[str | None, KeySource | None], Sts]
"""Opens STS at a URL (None: Amazon's), with keys (None: unsigned)."""


class CurrentKeys:
    def __init__(self, source: KeySource | None, network: Network, open_sts: OpenSts) -> None:
        self._source = source
        self._network = network
        self._open_sts = open_sts
        self._sts: Sts | None = None
        is_fixed = source is None or isinstance(source, SigningKeys)
        self._keys = source if isinstance(source, SigningKeys) else None
        self._fresh_until_s = self._expires_s = inf if is_fixed else 0.0
        self._lock = network.lock()
        self._is_fetching = False

    async def get(self) -> SigningKeys | None:
        """The keys to sign with; None if there are none, and nothing is signed. Raises ProfileError, ApiError or
        Unavailable."""
        now_s = time.time()
        if now_s < self._fresh_until_s or (self._is_fetching and now_s < self._expires_s):
            return self._keys
        async with self._lock:
            if time.time() >= self._fresh_until_s:
                self._is_fetching = True
                try:
                    await self._replace()
                finally:
                    self._is_fetching = False
        return self._keys

    def refused(self) -> bool:
        """Note that the server says that the keys have expired. Returns whether there can be others."""
        if self._source is None or isinstance(self._source, SigningKeys):
            return False
        self._fresh_until_s = self._expires_s = 0.0
        return True

    def forget(self) -> None:
        """Leave further requests unsigned."""
        self._keys = None

    async def _replace(self) -> None:
        try:
            issued = await self._fetch()
        except (ProfileError, ApiError, Unavailable):
            now_s = time.time()
            if now_s >= self._expires_s:
                raise
            self._fresh_until_s = min(now_s + _RETRY_S, self._expires_s)
            return
        now_s = time.time()
        self._keys, self._expires_s = issued
        self._fresh_until_s = issued.expires_s - min(_REFRESH_S_BEFORE, (issued.expires_s - now_s) / 4)

    async def _fetch(self) -> IssuedKeys:
        from penstock.client import temporary_keys  # few users have any

        match self._source:
            case KeysOfProgram(command):
                return await self._network.apart(lambda: temporary_keys.of_program(command))
            case KeysOfRole() as role:
                form = temporary_keys.assume_role(role)
                self._sts = self._sts or self._open_sts(role.sts_url, role.source)
            case KeysOfWebIdentity() as role:
                form = await self._network.apart(lambda: temporary_keys.assume_role_with_web_identity(role))
                self._sts = self._sts or self._open_sts(role.sts_url, None)
            case _:
                raise AssertionError(self._source)
        return temporary_keys.issued(await self._sts.form("sts", form))


def sts_url(region: str) -> str:
    """The URL of Amazon's STS."""
    return f"https://sts.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
