"""The errors of topics. The service that clients call has its own words for each."""

from __future__ import annotations

from penstock.errors import PenstockError


class TopicMissing(PenstockError):
    pass


class SubscriptionMissing(PenstockError):
    pass


class TokenUnknown(PenstockError):
    """The token of a confirmation has its form, but this server did not make it, or it has expired."""
