"""The files of the web console, with headers that let pages run scripts of this server only."""

from __future__ import annotations

import mimetypes
from functools import cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

from penstock.server.http.request import HttpError, Request
from penstock.server.http.response import REQUEST_ID
from penstock.wire.service import Headers, Response

_SAFE_PAGE: Headers = [
    (
        b"Content-Security-Policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    ),
    (b"X-Content-Type-Options", b"nosniff"),
    (b"X-Frame-Options", b"DENY"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cross-Origin-Opener-Policy", b"same-origin"),
    (b"Cross-Origin-Resource-Policy", b"same-origin"),
]


class _File(NamedTuple):
    content: bytes
    type: bytes
    etag: bytes


@cache
def _files() -> dict[str, _File]:
    """Returns the files by path below /console/. They are read once, when the first page is asked for."""
    found: dict[str, _File] = {}

    def add(folder: Traversable, prefix: str) -> None:
        for each in folder.iterdir():
            if each.is_dir():
                add(each, f"{prefix}{each.name}/")
            elif not each.name.endswith((".py", ".pyc")):
                content = each.read_bytes()
                kind = mimetypes.guess_type(each.name)[0] or "text/plain"
                charset = "; charset=utf-8" if kind.startswith("text/") or kind.endswith("javascript") else ""
                etag = f'"{sha256(content).hexdigest()[:20]}"'.encode()
                found[f"{prefix}{each.name}"] = _File(content, f"{kind}{charset}".encode(), etag)

    add(files("penstock.console"), "")
    return found


def file_page(request: Request, path: str) -> Response:
    if request.method not in (b"GET", b"HEAD"):
        raise HttpError(405, "Use GET or HEAD.")
    if not path:  # relative links need the slash
        return Response(308, [(b"Location", b"/console/"), (REQUEST_ID, request.id.encode())])
    file = _files().get(path[1:] or "index.html")
    headers = [*_SAFE_PAGE, (REQUEST_ID, request.id.encode())]
    if file is None:
        return Response(404, [*headers, (b"Content-Type", b"text/plain")], b"not found\n")
    headers += [(b"ETag", file.etag), (b"Cache-Control", b"no-cache")]
    if request.headers.get(b"if-none-match") == file.etag:
        return Response(304, headers)
    return Response(200, [*headers, (b"Content-Type", file.type)], file.content)
