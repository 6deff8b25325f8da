"""Where the bodies of messages go that are too large for a queue: a bucket of S3, or a directory.

A pointer comes from a message, and so from anyone who may send one. A store reads and deletes only what is its own.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

from penstock.client.errors import Unavailable
from penstock.files import NotRegular, create_private, open_regular, sync

_FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
_UNFINISHED = ".part"


class PayloadError(Unavailable):
    """A payload cannot be stored or read now."""


class PayloadMissing(Exception):
    """There is no such payload: it was deleted, or it is not of this store."""


class Pointer(NamedTuple):
    """The place of a payload, in the words of S3; a directory has the name of a bucket, too."""

    bucket: str
    key: str


class PayloadStore(Protocol):
    """Stores payloads. Its methods may block: they are called in a thread where that matters."""

    def put(self, payload: bytes) -> Pointer:
        """The payload is durable when this returns. Raises PayloadError."""

    def get(self, pointer: Pointer) -> bytes:
        """Raises PayloadMissing and PayloadError."""

    def delete(self, pointer: Pointer) -> None:
        """Delete a payload, which may be deleted already. Raises PayloadMissing for one of another store, and
        PayloadError."""


class DirectoryStore:
    """Stores payloads as files in a directory that all senders and receivers share, such as a network file system.

    For example:

        client = Client(large_payloads=LargePayloads(DirectoryStore("/mnt/payloads")))
    """

    def __init__(
        self, directory: str | Path, *, bucket: str = "penstock-payloads", for_group: bool = False
    ) -> None:
        """Use a directory, which is created if it does not exist.

        Files, and the directory if it is created here, are for the user of this process alone,
        unless ``for_group`` is set.

        :param directory: The path of the directory.
        :param bucket: The name of the directory in pointers, the same for all who use it; ``penstock-payloads`` by
            default.
        :param for_group: Whether the group may read the files, and read and write in a directory that is created
            here; False by default.
        :raises OSError: The directory cannot be created.
        """
        self._directory = Path(directory)
        self._bucket = bucket
        self._file_mode = 0o640 if for_group else 0o600
        if not self._directory.exists():
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if for_group:
                self._directory.chmod(0o770)

    def put(self, payload: bytes) -> Pointer:
        """Store a payload. It is durable when this returns.

        :param payload: The bytes.
        :returns: Where it is.
        :raises PayloadError: It cannot be written.
        """
        pointer = Pointer(self._bucket, str(uuid4()))
        file = self._directory / pointer.key
        unfinished = file.with_name(f"{pointer.key}{_UNFINISHED}")
        try:
            with os.fdopen(create_private(unfinished), "wb") as target:
                os.fchmod(target.fileno(), self._file_mode)
                target.write(payload)
                target.flush()
                os.fsync(target.fileno())
            unfinished.rename(file)
            sync(self._directory)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise PayloadError(f'cannot write to "{self._directory}": {error.strerror}') from error
        return pointer

    def get(self, pointer: Pointer) -> bytes:
        """Read a payload.

        :param pointer: Where it is.
        :returns: The bytes.
        :raises PayloadMissing: There is none, or it is not of this store.
        :raises PayloadError: It cannot be read.
        """
        try:
            with os.fdopen(open_regular(self._file(pointer)), "rb") as file:
                return file.read()
        except NotRegular as error:
            raise PayloadMissing(str(error)) from None
        except FileNotFoundError:
            raise PayloadMissing(f'there is no payload "{pointer.key}" in "{self._directory}"') from None
        except OSError as error:
            raise PayloadError(f'cannot read from "{self._directory}": {error.strerror}') from error

    def delete(self, pointer: Pointer) -> None:
        """Delete a payload, which may be deleted already.

        :param pointer: Where it is.
        :raises PayloadMissing: It is not of this store.
        :raises PayloadError: It cannot be deleted.
        """
        try:
            self._file(pointer).unlink(missing_ok=True)
        except OSError as error:
            raise PayloadError(f'cannot delete in "{self._directory}": {error.strerror}') from error

    def delete_older_than(self, age_s: float) -> int:
        """Delete payloads whose messages are gone without a delete: expired, purged, or never sent.

        SQS keeps a message for the retention period of its queue, 14 days at most.

            deleted = DirectoryStore("/mnt/payloads").delete_older_than(14 * 86_400)

        :param age_s: Payloads that were written more than this many seconds ago are deleted.
        :returns: How many were deleted.
        :raises OSError: The directory cannot be read or changed.
        """
        limit_s = time.time() - age_s
        old = [file for file in self._directory.iterdir() if _written_s(file) < limit_s]
        for file in old:
            file.unlink(missing_ok=True)
        return len(old)

    def _file(self, pointer: Pointer) -> Path:
        if pointer.bucket != self._bucket or not _FILE_NAME.fullmatch(pointer.key):
            raise PayloadMissing(f'"{pointer.bucket}/{pointer.key}" is not in the store "{self._bucket}"')
        return self._directory / pointer.key


def _written_s(file: Path) -> float:
    try:
        found = file.lstat()
    except FileNotFoundError:  # deleted meanwhile
        return inf
    return found.st_mtime if stat.S_ISREG(found.st_mode) else inf


class S3Store:
    """Stores payloads in a bucket of S3, or of a server that speaks S3.

    For example:

        client = Client(large_payloads=LargePayloads(S3Store("my-payloads")))
    """

    def __init__(
        self, bucket: str, *, client: Any = None, key_prefix: str = "", also_reads: Iterable[str] = ()
    ) -> None:
        """Use a bucket.

        :param bucket: The name of the bucket.
        :param client: A client of boto3 for S3; None (the default): boto3 makes one from its own settings.
        :param key_prefix: What keys begin with; only such keys are read and deleted. Empty by default.
        :param also_reads: Where payloads of other senders are, which are read and deleted, too: buckets
            (``"scans"``), or parts of them (``"scans/invoices/"``). By default, nowhere.
        :raises ImportError: There is no client, and boto3 is not installed.
        """
        self._bucket = bucket
        self._client = client or _s3_client()
        self._key_prefix = key_prefix
        others = (place.partition("/") for place in also_reads)  # the name of a bucket has no slash
        self._reads = [(bucket, key_prefix), *((other, prefix) for other, _, prefix in others)]

    def put(self, payload: bytes) -> Pointer:
        """Store a payload.

        :param payload: The bytes.
        :returns: Where it is.
        :raises PayloadError: It cannot be written.
        """
        pointer = Pointer(self._bucket, f"{self._key_prefix}{uuid4()}")
        self._call("put_object", pointer, Body=payload)
        return pointer

    def get(self, pointer: Pointer) -> bytes:
        """Read a payload.

        :param pointer: Where it is.
        :returns: The bytes.
        :raises PayloadMissing: There is none, or it may not be read by this store.
        :raises PayloadError: It cannot be read.
        """
        self._check(pointer)
        answer = self._call("get_object", pointer)
        try:
            return bytes(answer["Body"].read())
        except Exception as error:  # of botocore or urllib3: neither need be installed
            raise PayloadError(f'cannot read from the bucket "{pointer.bucket}": {error}') from error

    def delete(self, pointer: Pointer) -> None:
        """Delete a payload.

        :param pointer: Where it is.
        :raises PayloadMissing: It may not be deleted by this store.
        :raises PayloadError: It cannot be deleted.
        """
        self._check(pointer)
        self._call("delete_object", pointer)

    def _check(self, pointer: Pointer) -> None:
        # Dots are part of a key of S3, but not with every server or proxy that speaks S3.
        is_plain = ".." not in pointer.key.split("/")
        prefixes = [prefix for bucket, prefix in self._reads if bucket == pointer.bucket]
        if not prefixes:
            raise PayloadMissing(
                f'the payload is in the bucket "{pointer.bucket}": name it in also_reads if it may be read'
            )
        if not is_plain or not pointer.key.startswith(tuple(prefixes)):
            expected = " or ".join(f'"{prefix}"' for prefix in prefixes)
            raise PayloadMissing(
                f'the payload is "{pointer.key}" in the bucket "{pointer.bucket}", where keys begin with {expected}: '
                "name its place in also_reads if it may be read"
            )

    def _call(self, method: str, pointer: Pointer, **members: Any) -> Any:
        try:
            return getattr(self._client, method)(Bucket=pointer.bucket, Key=pointer.key, **members)
        except Exception as error:
            code = str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
            kind = PayloadMissing if code in ("NoSuchKey", "404") else PayloadError
            raise kind(f'{method} in the bucket "{pointer.bucket}" failed: {error}') from error


def _s3_client() -> Any:
    try:
        import boto3
    except ImportError:
        raise ImportError('payloads in S3 need boto3: pip install "penstock-mq[s3]"') from None
    return boto3.client("s3")
