"""What the handlers of STS share: who there is, what time it is, and how credentials are handed out."""

from __future__ import annotations

from typing import NamedTuple

from penstock.auth.identity import Credentials
from penstock.auth.identity.sessions import Issued
from penstock.auth.principal import Principal
from penstock.clock import Clock, iso_time
from penstock.services.sts import operations as op
from penstock.services.sts.faults import unsigned
from penstock.wire.call import Call


class Desk(NamedTuple):
    credentials: Credentials | None  # None: the server is open
    clock: Clock

    @property
    def now_s(self) -> int:
        """By the wall: it is shown to clients as a date, and must mean the same after a restart."""
        return self.clock.wall_ms() // 1000


def caller(call: Call) -> Principal:
    """Whoever asks a secured server. Raises Fault for those who did not sign."""
    principal: Principal = call.principal
    if principal.kind == "anonymous":
        raise unsigned()
    return principal


def handed_out(issued: Issued, expires_s: int) -> op.Credentials:
    return op.Credentials(
        AccessKeyId=issued.access_key,
        SecretAccessKey=issued.secret,
        SessionToken=issued.token,
        Expiration=iso_time(expires_s),
    )
