"""Web hooks of alarms: requests that the server makes to addresses that its operator has allowed.

A user who may create alarms chooses the URL, so that without a list of allowed ones they could make the server call
whatever it can reach. A redirect is not followed, and proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from penstock import __version__
from penstock.errors import ActionFailed

_TIMEOUT_S = 10.0
_THREADS = 4
_PORTS = {"http": 80, "https": 443}
_TRY_AGAIN = (408, 429)


class WebhookUrl(NamedTuple):
    scheme: str
    host: str
    port: int
    path: str
    query: str

    @classmethod
    def parse(cls, text: str) -> WebhookUrl | None:
        """None if it is no URL that is the same for everyone who reads it."""
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError:
            return None
        scheme, host = parts.scheme.lower(), parts.hostname
        if scheme not in _PORTS or not host or "@" in parts.netloc or parts.fragment:
            return None
        if not text.isascii() or not text.isprintable() or " " in text or "\\" in text:
            return None
        # Some servers decode the path before they resolve it.
        if any(segment in (".", "..") for segment in re.split(r"[/\\]", unquote(unquote(parts.path)))):
            return None
        return cls(scheme, host.lower().rstrip("."), port or _PORTS[scheme], parts.path or "/", parts.query)

    def is_below(self, allowed: WebhookUrl) -> bool:
        """Is it the same address, and the same path or one below it?"""
        prefix = allowed.path.rstrip("/")
        is_same_path = self.path == allowed.path or self.path.startswith(f"{prefix}/")
        return self[:3] == allowed[:3] and is_same_path


class Webhooks:
    def __init__(self, allowed: Sequence[str]) -> None:
        """``allowed``: URLs; what is below their paths is allowed, too."""
        self._threads: ThreadPoolExecutor | None = None
        self.change(allowed)

    def change(self, allowed: Sequence[str]) -> None:
        self._allowed = [url for text in allowed if (url := WebhookUrl.parse(text)) is not None]

    def allows(self, url: str) -> bool:
        wanted = WebhookUrl.parse(url)
        return wanted is not None and any(wanted.is_below(each) for each in self._allowed)

    async def post(self, url: str, body: str) -> None:
        """Raises ActionFailed."""
        wanted = WebhookUrl.parse(url)
        if wanted is None or not self.allows(url):
            raise ActionFailed("the setting alarm_webhooks does not allow the URL")
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "penstock-webhooks")
        await asyncio.get_running_loop().run_in_executor(self._threads, _post, wanted, body.encode())

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _post(url: WebhookUrl, body: bytes) -> None:
    """In a thread. Raises ActionFailed."""
    import http.client  # takes time at the start of a server, and most never call a web hook

    connection = (
        http.client.HTTPSConnection(
            url.host, url.port, timeout=_TIMEOUT_S, context=ssl.create_default_context()
        )
        if url.scheme == "https"
        else http.client.HTTPConnection(url.host, url.port, timeout=_TIMEOUT_S)
    )
    headers = {"Content-Type": "application/json", "User-Agent": f"penstock/{__version__}"}
    target = f"{url.path}?{url.query}" if url.query else url.path
    try:
        connection.request("POST", target, body, headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ActionFailed(f"the web hook cannot be reached: {reason}", can_repeat=True) from None
    finally:
        connection.close()
    if not 200 <= status < 300:
        again = status >= 500 or status in _TRY_AGAIN
        raise ActionFailed(f"the web hook answered with status {status}", can_repeat=again)
