"""Why a caller could not be authenticated. The server maps each error to the fault of AWS that says so.

The texts are those of AWS, as they quote what was signed. None of them holds a secret or anything made of one.
"""

from __future__ import annotations

from penstock.errors import PenstockError


class AuthenticationError(PenstockError):
    """The request is refused."""


class IncompleteSignature(AuthenticationError):
    """The signature cannot be read."""


class InvalidSignature(AuthenticationError):
    """The signature can be read, and does not belong to this request."""


class InvalidToken(AuthenticationError):
    """No such access key or session. All reasons share one text, so that callers cannot find out which keys exist."""

    def __init__(self) -> None:
        super().__init__("The security token included in the request is invalid.")


class ExpiredToken(AuthenticationError):
    """The session has expired."""

    def __init__(self) -> None:
        super().__init__("The security token included in the request is expired")
