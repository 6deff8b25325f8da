"""Web hooks: which URLs a setting lets the server call, and which answers are worth another try."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import JobFailed
from penstock.outgoing import AllowedUrls, OutgoingFailed, OutgoingHttp

_TRY_AGAIN = (408, 429)


class Webhooks:
    def __init__(self, http: OutgoingHttp, setting: str, allowed: Sequence[str]) -> None:
        """``setting``: the name of the setting that allows the URLs, for those who get a refusal."""
        self._http = http
        self._setting = setting
        self._allowed = AllowedUrls(allowed)

    def change(self, allowed: Sequence[str]) -> None:
        self._allowed = AllowedUrls(allowed)

    def allows(self, url: str) -> bool:
        return self._allowed.find(url) is not None

    async def post(self, account: str, url: str, body: str) -> None:
        """Raises JobFailed."""
        found = self._allowed.find(url)
        if found is None:
            raise JobFailed(f"the setting {self._setting} does not allow the URL")
        try:
            answer = await self._http.request(
                account, "POST", found, {"Content-Type": "application/json"}, body.encode()
            )
        except OutgoingFailed as failure:
            raise JobFailed(f"the web hook cannot be reached: {failure}", can_repeat=True) from None
        if not 200 <= answer.status < 300:
            again = answer.status >= 500 or answer.status in _TRY_AGAIN
            raise JobFailed(f"the web hook answered with status {answer.status}", can_repeat=again)
