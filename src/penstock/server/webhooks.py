"""Web hooks of alarms: which URLs they may call, and which answers are worth another try."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import JobFailed
from penstock.outgoing import AllowedUrls, OutgoingFailed, OutgoingHttp

_TRY_AGAIN = (408, 429)


class Webhooks:
    def __init__(self, http: OutgoingHttp, allowed: Sequence[str]) -> None:
        self._http = http
        self._allowed = AllowedUrls(allowed)

    def change(self, allowed: Sequence[str]) -> None:
        self._allowed = AllowedUrls(allowed)

    def allows(self, url: str) -> bool:
        return self._allowed.find(url) is not None

    async def post(self, account: str, url: str, body: str) -> None:
        """Raises JobFailed."""
        found = self._allowed.find(url)
        if found is None:
            raise JobFailed("the setting alarm_webhooks does not allow the URL")
        try:
            answer = await self._http.request(
                account, "POST", found, {"Content-Type": "application/json"}, body.encode()
            )
        except OutgoingFailed as failure:
            raise JobFailed(f"the web hook cannot be reached: {failure}", can_repeat=True) from None
        if not 200 <= answer.status < 300:
            again = answer.status >= 500 or answer.status in _TRY_AGAIN
            raise JobFailed(f"the web hook answered with status {answer.status}", can_repeat=again)
