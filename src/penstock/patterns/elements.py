"""Whether conditions hold in the same elements of arrays.

SNS: a value in an array of objects counts together with the values of the same element only. So a message matches a
branch if one can choose an element of some arrays, each with a value in it that a rule wants, such that

* each rule has a value it wants outside of arrays or in chosen elements,
* or wants a field to be absent, and finds none there nor in an array of which no element is chosen.

Trying all choices would take exponential time. But elements form a tree, and all that matters of a choice is which
rules are satisfied within: a set of at most five rules, and of those whose field is absent. From the innermost
elements outwards, the possible sets are collected, and only those that no other one includes are kept. So the time
grows with the number of values, not with that of choices.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.patterns.limits import PIECE
from penstock.patterns.pattern import Branch
from penstock.patterns.subject import ROOT, FilterSubject
from penstock.turns import Steps


class _Within:
    """What is known of an element. A set is an integer: a bit for each rule that has a value it wants, and above
    these a bit for each that wants absence and finds no value."""

    __slots__ = ("arrays", "own")

    def __init__(self, own: int) -> None:
        self.own = own  # by values that are in this element, but not in arrays in it
        self.arrays: dict[int, _Choices] = {}


class _Choices:
    """What is known of an array, from its elements so far."""

    __slots__ = ("chosen", "unchosen")

    def __init__(self, nothing: int) -> None:
        self.chosen: set[int] = set()  # the sets of one element or another
        self.unchosen = nothing  # the set if none is chosen


class _Bits(NamedTuple):
    wanted: int  # of all rules that may have a value
    absent: int  # of all rules that want absence


def holds_in_elements(branch: Branch, subject: FilterSubject) -> Steps[bool]:
    """Needs the values of all rules of the branch in ``subject.found``."""
    bits = _bits(branch)
    within = {ROOT: _Within(bits.absent)}
    yield from _read_values(branch, subject, within, bits)
    elements = subject.elements
    for count, number in enumerate(sorted(within, reverse=True)):  # the inner ones come first
        element = within.pop(number)
        sets = _sets(element, bits)
        if number == ROOT:
            return any(_satisfies(each, len(branch)) for each in sets)
        parent, array = elements[number]
        outer = within[parent]
        choices = outer.arrays.get(array)
        if choices is None:
            choices = outer.arrays[array] = _Choices(bits.absent)
        choices.chosen.update(each for each in sets if each & bits.wanted)
        choices.unchosen &= _unchosen(element)
        if count % PIECE == PIECE - 1:
            yield
    raise AssertionError("the root is an element")


def _bits(branch: Branch) -> _Bits:
    absent = sum(1 << number for number, rule in enumerate(branch) if rule.wants_absence)
    return _Bits((1 << len(branch)) - 1, absent << len(branch))


def _satisfies(each: int, rules: int) -> bool:
    return (each | each >> rules) & ((1 << rules) - 1) == (1 << rules) - 1


def _read_values(
    branch: Branch, subject: FilterSubject, within: dict[int, _Within], bits: _Bits
) -> Steps[None]:
    for number, rule in enumerate(branch):
        found = subject.found[rule.path]
        if found is None:
            continue
        wanted, present = 1 << number, ~(1 << number + len(branch))
        subject.spend(len(found.values) * rule.cost)
        piece = rule.at_a_time
        for at, value in enumerate(found.values):
            place = ROOT if found.elements is None else found.elements[at]
            element = within.get(place) or _enter(place, subject, within, bits)
            element.own &= present
            if not element.own & wanted and rule.holds(value):
                element.own |= wanted
            if at % piece == piece - 1:
                yield


def _enter(place: int, subject: FilterSubject, within: dict[int, _Within], bits: _Bits) -> _Within:
    """Returns a new element, and adds those that it is in."""
    entered = within[place] = _Within(bits.absent)
    while (place := subject.elements[place].parent) not in within:
        within[place] = _Within(bits.absent)
    return entered


def _unchosen(element: _Within) -> int:
    """Returns the set if no element is chosen here: which fields are absent in all of it."""
    absent = element.own
    for choices in element.arrays.values():
        absent &= choices.unchosen
    return absent


def _sets(element: _Within, bits: _Bits) -> set[int]:
    """Returns the sets that can be had in an element, but for those that another one includes."""
    sets = {element.own}
    for choices in element.arrays.values():
        options = _largest(choices.chosen | {choices.unchosen})
        sets = _largest(
            {(one | other) & bits.wanted | one & other & bits.absent for one in sets for other in options}
        )
    return sets


def _largest(sets: set[int]) -> set[int]:
    if len(sets) == 1:
        return sets
    return {one for one in sets if not any(one & other == one != other for other in sets)}
