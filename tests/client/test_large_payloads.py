"""Which bodies are stored elsewhere, and the format of AWS's extended clients."""

from __future__ import annotations

import pytest

from penstock.client.large_payloads import LargePayloads, marked_handle, split_handle
from penstock.client.payload_stores import PayloadError, PayloadMissing, Pointer
from penstock.client.structs import Message, MessageAttribute, SendEntry
from support.rows import every_row

POINTER = Pointer("bucket", "a-key")
SIZE = {"ExtendedPayloadSize": MessageAttribute("Number", string_value="3")}


class FakeStore:
    """Keys that begin with ``down`` cannot be read, others that are not in it are missing."""

    def __init__(self) -> None:
        self.payloads: dict[Pointer, bytes] = {}

    def put(self, payload: bytes) -> Pointer:
        pointer = Pointer("bucket", f"key-{len(self.payloads)}")
        self.payloads[pointer] = payload
        return pointer

    def get(self, pointer: Pointer) -> bytes:
        if pointer.key.startswith("down"):
            raise PayloadError("the store is down")
        if pointer not in self.payloads:
            raise PayloadMissing("there is none")
        return self.payloads[pointer]

    def delete(self, pointer: Pointer) -> None:
        if pointer.key.startswith("down"):
            raise PayloadError("the store is down")
        self.payloads.pop(pointer, None)


def entry(size: int, **attributes: str) -> SendEntry:
    return SendEntry(body="x" * size, message_attributes=dict(attributes) or None)


def pointing_at(key: str) -> Message:
    body = (
        f'["software.amazon.payloadoffloading.PayloadS3Pointer",{{"s3BucketName":"bucket","s3Key":"{key}"}}]'
    )
    return Message(f"id-{key}", f"handle-{key}", body, message_attributes=dict(SIZE))


# -- which are stored ----------------------------------------------------------------------------------------


def test_messages_above_the_threshold_are_stored() -> None:
    payloads = LargePayloads(FakeStore(), threshold_bytes=100)
    small, large = entry(100), entry(101)
    with_attribute = entry(90, n="xxxx")  # and six bytes of "String"
    assert payloads.chosen([small, large, with_attribute]) == [large, with_attribute]


@pytest.mark.parametrize("threshold", [-1, 1_048_577])
def test_a_threshold_beyond_the_limit_of_messages_is_refused(threshold: int) -> None:
    with pytest.raises(ValueError, match="expected 0 to 1048576"):
        LargePayloads(FakeStore(), threshold_bytes=threshold)


def test_all_can_be_stored() -> None:
    payloads = LargePayloads(FakeStore(), always=True)
    tiny = entry(1)
    assert payloads.chosen([tiny]) == [tiny]


def test_the_largest_of_a_batch_are_stored_if_it_is_too_large() -> None:
    payloads = LargePayloads(FakeStore())
    entries = [entry(size) for size in (500_000, 100_000, 400_000, 200_000)]
    assert payloads.chosen(entries) == [entries[0]]
    assert payloads.chosen([entry(1_048_576)]) == []


def test_a_stored_message_has_a_pointer_and_is_not_stored_again() -> None:
    store = FakeStore()
    payloads = LargePayloads(store, always=True)
    sent = SendEntry(body="“tea”", message_attributes={"n": "1"})
    payloads.store([sent])
    assert sent.body == (
        '["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"bucket","s3Key":"key-0"}]'
    )
    assert sent.message_attributes == {"n": "1", "ExtendedPayloadSize": 9}
    assert store.payloads == {Pointer("bucket", "key-0"): "“tea”".encode()}
    assert payloads.chosen([sent]) == []


# -- what is received ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        '["software.amazon.payloadoffloading.PayloadS3Pointer",{"s3BucketName":"bucket","s3Key":"a-key"}]',
        '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": "bucket", "s3Key": "a-key"}]',
        '["com.amazon.sqs.javamessaging.MessageS3Pointer",{"s3BucketName":"bucket","s3Key":"a-key"}]',
    ],
)
@pytest.mark.parametrize("attribute", ["ExtendedPayloadSize", "SQSLargePayloadSize"])
def test_both_forms_of_pointers_are_read(body: str, attribute: str) -> None:
    message = Message("id", "handle", body, message_attributes={attribute: SIZE["ExtendedPayloadSize"]})
    assert LargePayloads.pointers([message]) == {"handle": POINTER}


@every_row(
    "body",
    [
        "tea", "[]", '["a", "b", "c"]', '{"s3BucketName": "b"}', "1", "null", '["java.lang.Runtime", {}]',
        '["java.lang.Runtime", {"s3BucketName": "b", "s3Key": "k"}]',
        '["software.amazon.payloadoffloading.PayloadS3Pointer", {"s3BucketName": 1, "s3Key": "k"}]',
        '["software.amazon.payloadoffloading.PayloadS3Pointer", null]',
        '[["software.amazon.payloadoffloading.PayloadS3Pointer"], {"s3BucketName": "b", "s3Key": "k"}]',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_another_body_is_the_body(body: str) -> None:
    assert LargePayloads.pointers([Message("id", "handle", body, message_attributes=dict(SIZE))]) == {}


def test_a_pointer_without_the_attribute_is_the_body() -> None:
    message = pointing_at("a-key")
    message.message_attributes.clear()
    assert LargePayloads.pointers([message]) == {}


def test_a_loaded_message_is_as_it_was_sent() -> None:
    store = FakeStore()
    store.payloads[POINTER] = b"tea"
    payloads = LargePayloads(store)
    message = pointing_at("a-key")
    plain = Message("id", "plain", "coffee")
    assert payloads.load([message, plain], payloads.pointers([message, plain])) == [message, plain]
    assert (message.body, plain.body) == ("tea", "coffee")
    assert message.message_attributes == {}
    assert (
        message.receipt_handle
        == "-..s3BucketName..-bucket-..s3BucketName..--..s3Key..-a-key-..s3Key..-handle-a-key"
    )


def test_messages_without_their_payload_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    payloads = LargePayloads(FakeStore())
    messages = [pointing_at("missing"), Message("id", "plain", "coffee"), pointing_at("down")]
    loaded = payloads.load(messages, payloads.pointers(messages))
    assert [message.body for message in loaded] == ["coffee"]
    arguments = [record.args for record in caplog.records if isinstance(record.args, tuple) and record.args]
    assert [first for first, *_ in arguments] == ["id-missing", "id-down"]


def test_a_store_that_is_down_is_an_error_and_a_missing_payload_is_none() -> None:
    payloads = LargePayloads(FakeStore())
    for messages in ([pointing_at("down")], [pointing_at("missing"), pointing_at("down")]):
        with pytest.raises(PayloadError):
            payloads.load(messages, payloads.pointers(messages))
    missing = [pointing_at("missing")]
    assert payloads.load(missing, payloads.pointers(missing)) == []


# -- what is deleted -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["a-key", "prefix/a.key", "-", ""])
def test_receipt_handles_carry_pointers(key: str) -> None:
    pointer = Pointer("bucket", key)
    assert split_handle(marked_handle("AQEB+/=", pointer)) == ("AQEB+/=", pointer)


@pytest.mark.parametrize("handle", ["AQEB+/=", "", "-..s3BucketName..-bucket", "x-..s3Key..-y-..s3Key..-z"])
def test_other_receipt_handles_stay_as_they_are(handle: str) -> None:
    assert split_handle(handle) == (handle, None)


def test_payloads_are_deleted_unless_they_are_to_stay() -> None:
    handles = ["plain", marked_handle("handle", POINTER)]
    assert LargePayloads(FakeStore()).to_delete(handles) == [POINTER]
    assert LargePayloads(FakeStore(), delete_payloads=False).to_delete(handles) == []


def test_a_payload_that_cannot_be_deleted_does_not_fail_the_delete() -> None:
    store = FakeStore()
    store.payloads[POINTER] = b"tea"
    LargePayloads(store).delete([Pointer("bucket", "down"), POINTER])
    assert store.payloads == {}
