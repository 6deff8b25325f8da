"""Form-encoded parameters as a tree: ``Tag.2.Key=colour`` is the value at Tag, 2, Key.

Rule 1: what is read is bounded: the number of parameters, the length of a name and its levels. Numbers in names are
names of branches, so that ``Tag.999999999`` costs no more than ``Tag.1``.
Rule 2: a parameter given twice is what it was first.
Rule 3: a value is decoded when it is asked for: one that no field knows costs nothing, whatever its length.
Rule 4: a name, or a value that was asked for, that cannot be decoded is SerializationException.
"""

from __future__ import annotations

import binascii

from penstock.wire.faults import malformed_input

PARAMETERS_MAX = 2000  # the largest batch of SQS, with ten attributes on each message, needs about 400
LEVELS_MAX = 16  # the deepest name of any service has nine; what is deeper belongs to no field
NAME_BYTES_MAX = 512  # the longest has about a hundred, and three times that if all of it is escaped


class Branch:
    """One level of a name: the value given for it, and the levels below."""

    __slots__ = ("_value", "below", "given")

    def __init__(self) -> None:
        self.given: bytes | None = None  # as it was sent
        self._value: str | None = None
        self.below: dict[str, Branch] = {}

    @property
    def value(self) -> str | None:
        if self._value is None and self.given is not None:
            self._value = decoded(self.given)
        return self._value

    def text(self, name: str) -> str:
        """The value of a name right below; empty if it was not given."""
        branch = self.below.get(name)
        return branch.value or "" if branch is not None else ""


def read_form(*sources: bytes) -> Branch:
    """The parameters of a query string and of a body, as one tree."""
    if sum(source.count(b"&") for source in sources) >= PARAMETERS_MAX:
        raise malformed_input(f"The request has more than {PARAMETERS_MAX} parameters.")
    tree = Branch()
    for source in sources:
        for parameter in source.split(b"&"):
            name, _, value = parameter.partition(b"=")
            if 0 < len(name) <= NAME_BYTES_MAX:
                _add(tree, decoded(name), value)
    return tree


def _add(tree: Branch, name: str, value: bytes) -> None:
    branch = tree
    for level in name.split(".", LEVELS_MAX):
        found = branch.below.get(level)
        if found is None:
            found = branch.below[level] = Branch()
        branch = found
    if branch.given is None:
        branch.given = value


def decoded(text: bytes) -> str:
    """A name or value of a form. Lone surrogates are let through: what may hold them is for others to say."""
    if b"+" in text:
        text = text.replace(b"+", b" ")
    if b"%" in text:
        text = _unescaped(text)
    try:
        return text.decode("utf-8", "surrogatepass")
    except ValueError:
        raise malformed_input("The request's parameters are not UTF-8.") from None


def _unescaped(text: bytes) -> bytes:
    # Quoted-printable is the same code with another sign, and the one that the standard library decodes
    # natively: a body of 8 MiB, all escapes, takes milliseconds where a loop in Python takes a second.
    plain = binascii.a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"="))
    # It passes over what is no escape, which then is longer than if it were one; but an escaped line break, which
    # there is only in quoted-printable, is just as long.
    is_broken = len(plain) != len(text) - 2 * text.count(b"%") or b"%\n" in text or b"%\r" in text
    if is_broken:
        raise malformed_input("The request's parameters have a broken percent escape.")
    return plain
