"""Responses with long lists, encoded in steps: first the lists, piece by piece, then the rest as always.

A page of metrics has a hundred thousand times and values, and takes up to half a second to be written. So each long
list of such a response is replaced by what it is in the protocol, before the response is written as a whole.
"""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

from penstock.turns import Steps, in_pieces
from penstock.wire.service import ResponseWriter
from penstock.wire.shapes import ListOf, StructOf

_SCALARS_PER_STEP = 200


class EncodedList(NamedTuple):
    """A list as it is written, which stands in its place."""

    members: Any  # without what is before and after them


def encode_lists(writer: ResponseWriter, response: Any, shape: StructOf) -> Steps[Any]:
    """A copy of a response in which all long lists are encoded, the inner ones first.

    The response stays as it is: the audit log counts its members."""
    encoded = copy(response)
    for field in shape.fields:
        members = getattr(response, field.name)
        if not isinstance(field.shape, ListOf) or not isinstance(members, list):
            continue
        inner = field.shape.member
        if isinstance(inner, StructOf):
            copies = []
            for member in members:
                copies.append((yield from encode_lists(writer, member, inner)))
                yield
            members = copies
        step = 1 if isinstance(inner, StructOf) else _SCALARS_PER_STEP
        if len(members) > step:
            members = yield from writer.encoded_list(in_pieces(members, step), field)
        setattr(encoded, field.name, members)
    return encoded
