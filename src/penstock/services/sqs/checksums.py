"""The MD5 digests that SDKs check.

Of a body: its UTF-8 bytes. Of attributes: in order of their names, for each the name, the type and the value,
each behind its length in four bytes, big end first; one byte before the value says text (1) or binary (2).
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5

from penstock.queues.messages import Attribute

_TEXT, _BINARY = b"\x01", b"\x02"


def md5_of_body(body: str) -> str:
    return md5(body.encode(), usedforsecurity=False).hexdigest()


def md5_of_attributes(attributes: Mapping[str, Attribute]) -> str:
    digest = md5(usedforsecurity=False)
    for name in sorted(attributes, key=_code_units):
        attribute = attributes[name]
        digest.update(_measured(name.encode()))
        digest.update(_measured(attribute.type.encode()))
        if isinstance(attribute.value, str):
            digest.update(_TEXT + _measured(attribute.value.encode()))
        else:
            digest.update(_BINARY + _measured(attribute.value))
    return digest.hexdigest()


def _code_units(name: str) -> bytes:
    # The SDKs that check compare UTF-16 code units, which past U+FFFF is not the order of code points.
    return name.encode("utf-16-be")


def _measured(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value
