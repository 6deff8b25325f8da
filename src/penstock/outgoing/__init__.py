"""HTTP requests that the server makes: which URLs may be called, and the client that calls them."""

from __future__ import annotations

from penstock.outgoing.client import OutgoingFailed, OutgoingHttp, OutgoingRefused, in_thread
from penstock.outgoing.urls import ALL_HOSTS, AllowedUrls, CredentialUrl, OpenUrls, OutgoingUrl

__all__ = [
    "ALL_HOSTS",
    "AllowedUrls",
    "CredentialUrl",
    "OpenUrls",
    "OutgoingFailed",
    "OutgoingHttp",
    "OutgoingRefused",
    "OutgoingUrl",
    "in_thread",
]
