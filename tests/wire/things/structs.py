"""Requests and responses. Marks say where REST-JSON puts a member; other protocols have all of them in the body."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from penstock.wire.shapes import InHeader, InPath, InQuery, Payload, Time


class Members(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class Part(Members):
    Label: str | None = None
    Data: bytes | None = None


class PutThingRequest(Members):
    Name: Annotated[str | None, InPath()] = None
    Trace: Annotated[str | None, InHeader("X-Trace")] = None
    Colours: Annotated[list[str] | None, InQuery("colour")] = None
    Count: Annotated[int | None, InQuery("count")] = None
    Fresh: Annotated[bool | None, InQuery("fresh")] = None
    Weight: float | None = None
    Note: str | None = None
    Tags: dict[str, str] | None = None
    Parts: list[Part] | None = None
    Made: Time | None = None
    Changed: list[Time] | None = None


class Thing(Members):
    Name: str
    Trace: Annotated[str | None, InHeader("X-Trace")] = None
    Colours: list[str] | None = None
    Count: int | None = None
    Fresh: bool | None = None
    Weight: float | None = None
    Note: str | None = None
    Tags: dict[str, str] | None = None
    Parts: list[Part] | None = None
    Made: Time | None = None
    Changed: list[Time] | None = None


class NameRequest(Members):
    Name: Annotated[str | None, InPath()] = None


class NewestRequest(Members):
    pass


class UploadRequest(Members):
    Key: Annotated[str | None, InPath()] = None
    Content: Annotated[bytes | None, Payload()] = None


class UploadResult(Members):
    Size: int


class DownloadRequest(Members):
    Key: Annotated[str | None, InPath()] = None


class DownloadResult(Members):
    Type: Annotated[str | None, InHeader("X-Type")] = None
    Content: Annotated[Any, Payload(b"application/x-things")] = None  # bytes, or a stream of them
