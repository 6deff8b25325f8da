"""Sessions of an open server, which does not authenticate: their tokens only name the account they act in.

They hold no secret, protect nothing and stay valid after a restart. A secured server refuses them.
"""

from __future__ import annotations

import base64
import re

from penstock.auth.identity.access_keys import new_access_key_id, new_secret
from penstock.auth.identity.sessions import Issued

_ACCOUNT = re.compile(rb"penstock open session of ([0-9]{12})")


def open_session(account: str) -> Issued:
    token = base64.b64encode(f"penstock open session of {account}".encode()).decode()
    return Issued(new_access_key_id(temporary=True), new_secret(), token)


def open_account(token: str) -> str | None:
    """The account that the session acts in; None if the token does not come from an open server."""
    try:
        found = _ACCOUNT.fullmatch(base64.b64decode(token, validate=True))
    except ValueError:
        return None
    return found[1].decode() if found else None
