"""HTTP requests that the server makes: which URLs may be called, and the client that calls them."""

from __future__ import annotations

from penstock.outgoing.client import OutgoingFailed, OutgoingHttp
from penstock.outgoing.urls import AllowedUrls, OutgoingUrl

__all__ = ["AllowedUrls", "OutgoingFailed", "OutgoingHttp", "OutgoingUrl"]
