"""Certificates as ``penstock cert`` makes them, written where a test wants them."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from penstock.cli.security.cert import make_certificate
from penstock.server.tls import TlsFiles, tls_context

NAMES = ("localhost", "127.0.0.1", "::1")


class ServerFiles(NamedTuple):
    authority: Path
    certificate: Path
    key: Path

    @property
    def files(self) -> TlsFiles:
        return TlsFiles(self.certificate, self.key)

    def context(self) -> ssl.SSLContext:
        return tls_context(self.certificate, self.key)

    def trusting(self) -> ssl.SSLContext:
        """What a client needs that knows the authority."""
        return ssl.create_default_context(cafile=str(self.authority))


def write_certificate(
    directory: Path,
    name: str = "localhost",
    *,
    client: bool = False,
    days: int = 30,
    ago: timedelta = timedelta(),
) -> ServerFiles:
    made = make_certificate(name, () if client else NAMES, days, client=client, now=datetime.now(UTC) - ago)
    directory.mkdir(exist_ok=True)
    files = ServerFiles(*(directory / f"{part}.pem" for part in ("ca", "cert", "key")))
    for path, text in zip(files, made, strict=True):
        path.write_bytes(text)
    files.key.chmod(0o600)
    return files
