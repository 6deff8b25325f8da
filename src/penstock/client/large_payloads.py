"""Bodies that are too large for a queue: stored elsewhere, with a pointer in the message.

The format is the one of AWS's extended clients for Java and Python: a body that names bucket and key, the message
attribute ``ExtendedPayloadSize``, and receipt handles that begin with bucket and key between marks, by which the
payload is deleted with its message. Messages of those clients are read, also in the older form, and they read ours.

A payload is written before its message is sent and deleted after its message was. One whose message was refused,
purged or has expired stays: a lifecycle rule of the bucket deletes it, or ``DirectoryStore.delete_older_than``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from penstock.client.batching import message_size
from penstock.client.limits import MESSAGE_BYTES_MAX
from penstock.client.payload_stores import PayloadError, PayloadMissing, PayloadStore, Pointer
from penstock.client.structs import Message, SendEntry

SIZE_ATTRIBUTE = "ExtendedPayloadSize"
_SIZE_ATTRIBUTES = (SIZE_ATTRIBUTE, "SQSLargePayloadSize")
_POINTER_CLASS = "software.amazon.payloadoffloading.PayloadS3Pointer"
_POINTER_CLASSES = (_POINTER_CLASS, "com.amazon.sqs.javamessaging.MessageS3Pointer")
_BUCKET_MARK = "-..s3BucketName..-"
_KEY_MARK = "-..s3Key..-"
_log = logging.getLogger(__name__)


class LargePayloads:
    """A setting of clients: bodies that are too large for a queue are stored elsewhere.

    The message carries a pointer, in the format of Amazon's extended client libraries. Its methods may block: clients
    call them in a thread where that matters.

        Client(large_payloads=LargePayloads(S3Store("payloads")))
    """

    def __init__(
        self,
        store: PayloadStore,
        *,
        threshold_bytes: int = MESSAGE_BYTES_MAX,
        always: bool = False,
        delete_payloads: bool = True,
    ) -> None:
        """Choose the store and what goes there.

        :param store: Where bodies are stored: :class:`S3Store`, :class:`DirectoryStore`, or one of your own.
        :param threshold_bytes: Messages that are larger, with their attributes, are stored. By default 1 MiB, which
            is also the most.
        :param always: Whether all bodies are stored; False by default.
        :param delete_payloads: Whether bodies are deleted with their messages; True by default.
        :raises ValueError: The threshold is out of range.
        """
        if not 0 <= threshold_bytes <= MESSAGE_BYTES_MAX:
            raise ValueError(
                f"invalid value {threshold_bytes} for threshold_bytes: expected 0 to {MESSAGE_BYTES_MAX}, the most "
                "that a message can have"
            )
        self._store = store
        self._threshold_bytes = threshold_bytes
        self._always = always
        self._delete_payloads = delete_payloads

    # -- sending ---------------------------------------------------------------------------------------------

    def chosen(self, entries: Iterable[SendEntry]) -> list[SendEntry]:
        """Choose which messages of a request are to be stored.

        :param entries: The messages of one request.
        :returns: Those that are too large, and more if the request would be too large.
        """
        sizes = [(message_size(entry.body, entry.message_attributes), entry) for entry in entries]
        small = [(size, entry) for size, entry in sizes if not self._is_large(size, entry)]
        chosen = [entry for size, entry in sizes if self._is_large(size, entry)]
        # SQS: the sum of a batch has a limit, too.
        small.sort(key=lambda pair: pair[0])
        while len(small) > 1 and sum(size for size, _ in small) > MESSAGE_BYTES_MAX:
            chosen.append(small.pop()[1])
        return chosen

    def store(self, entries: Iterable[SendEntry]) -> None:
        """Store bodies, and replace them by pointers in the entries: one that is sent again is not stored again.

        :param entries: The messages whose bodies are to be stored.
        :raises PayloadError: A body cannot be stored now.
        """
        for entry in entries:
            payload = entry.body.encode()
            entry.message_attributes = {**(entry.message_attributes or {}), SIZE_ATTRIBUTE: len(payload)}
            entry.body = pointer_body(self._store.put(payload))

    def _is_large(self, size: int, entry: SendEntry) -> bool:
        if entry.message_attributes and SIZE_ATTRIBUTE in entry.message_attributes:
            return False  # it is stored already
        return self._always or size > self._threshold_bytes

    # -- receiving -------------------------------------------------------------------------------------------

    @staticmethod
    def attribute_names(names: Sequence[str] | None) -> list[str]:
        """Add the attributes that mark a body as a pointer to those that are asked for.

        :param names: The message attributes that the caller wants, or None.
        :returns: The message attributes to ask the server for.
        """
        return [*(names or ()), *_SIZE_ATTRIBUTES]

    @staticmethod
    def pointers(messages: Iterable[Message]) -> dict[str, Pointer]:
        """Find the pointers among received messages.

        :param messages: The messages as they were received.
        :returns: The pointers of those whose bodies are stored elsewhere, by receipt handle.
        """
        found = ((message.receipt_handle, _pointer_of(message)) for message in messages)
        return {handle: pointer for handle, pointer in found if pointer is not None}

    def load(self, messages: list[Message], pointers: Mapping[str, Pointer]) -> list[Message]:
        """Read the bodies of messages.

        A message whose body cannot be read is left out: it is delivered again later, and is a dead letter in the end.

        :param messages: The messages as they were received.
        :param pointers: What :meth:`pointers` found in them.
        :returns: The messages with their bodies.
        :raises PayloadError: A body cannot be read now, and no message is left.
        """
        with ThreadPoolExecutor(len(pointers)) as threads:
            reads = {handle: threads.submit(self._store.get, pointer) for handle, pointer in pointers.items()}
        loaded = []
        failure: PayloadError | None = None
        for message in messages:
            try:
                if (read := reads.get(message.receipt_handle)) is not None:
                    _complete(message, read.result().decode(), pointers[message.receipt_handle])
                loaded.append(message)
            except (PayloadError, PayloadMissing, UnicodeDecodeError) as error:
                _log.error("the payload of the message %s cannot be read: %s", message.message_id, error)
                failure = error if isinstance(error, PayloadError) else failure
        if failure is not None and not loaded:
            raise failure
        return loaded

    # -- deleting --------------------------------------------------------------------------------------------

    @staticmethod
    def server_handle(handle: str) -> str:
        """Take the pointer out of a receipt handle.

        :param handle: A receipt handle of a message that this client received.
        :returns: The receipt handle that the server knows.
        """
        return split_handle(handle)[0]

    def to_delete(self, handles: Iterable[str]) -> list[Pointer]:
        """Find the bodies of messages that were deleted.

        :param handles: The receipt handles of the messages.
        :returns: The pointers; none if ``delete_payloads`` is False.
        """
        pointers = [split_handle(handle)[1] for handle in handles]
        return [pointer for pointer in pointers if pointer is not None and self._delete_payloads]

    def delete(self, pointers: Iterable[Pointer]) -> None:
        """Delete bodies. One that cannot be deleted is logged, and stays in the store.

        :param pointers: Where the bodies are.
        """
        for pointer in pointers:
            try:
                self._store.delete(pointer)
            except (PayloadError, PayloadMissing) as error:
                _log.warning("the payload of a deleted message stays in the store: %s", error)


def _complete(message: Message, body: str, pointer: Pointer) -> None:
    message.body = body
    message.receipt_handle = marked_handle(message.receipt_handle, pointer)
    for name in _SIZE_ATTRIBUTES:
        message.message_attributes.pop(name, None)


# -- the format ----------------------------------------------------------------------------------------------


class _S3Object(msgspec.Struct, rename={"bucket": "s3BucketName", "key": "s3Key"}):
    bucket: str
    key: str


_read_pointer = msgspec.json.Decoder(tuple[str, _S3Object]).decode


def pointer_body(pointer: Pointer) -> str:
    return msgspec.json.encode((_POINTER_CLASS, _S3Object(*pointer))).decode()


def _pointer_of(message: Message) -> Pointer | None:
    """Returns the pointer in the body of a message; None if the body is an ordinary one."""
    if not any(name in message.message_attributes for name in _SIZE_ATTRIBUTES):
        return None
    try:
        kind, place = _read_pointer(message.body)
    except (msgspec.DecodeError, RecursionError):
        return None
    return Pointer(place.bucket, place.key) if kind in _POINTER_CLASSES else None


def marked_handle(handle: str, pointer: Pointer) -> str:
    return f"{_BUCKET_MARK}{pointer.bucket}{_BUCKET_MARK}{_KEY_MARK}{pointer.key}{_KEY_MARK}{handle}"


def split_handle(handle: str) -> tuple[str, Pointer | None]:
    """The receipt handle that the server knows, and the pointer if there is one."""
    if not handle.startswith(_BUCKET_MARK):
        return handle, None
    parts = handle.split(_BUCKET_MARK, 2)
    key_parts = parts[-1].split(_KEY_MARK, 2)
    if len(parts) != 3 or len(key_parts) != 3:
        return handle, None
    return key_parts[2], Pointer(parts[1], key_parts[1])
