"""Policies and messages that meet often: few names, few values."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

_NAMES = st.sampled_from(["a", "b", "a.b", "b.a"])
_TEXTS = st.sampled_from(["", "x", "y", "xy", "X", "yx", "x*", "10.0.0.1", "10.0.1.1", "::1"])
_NUMBERS = st.sampled_from([0, 1, 2, -1, 1.5, 2.0, 1e2])
_SCALARS = st.one_of(_TEXTS, _NUMBERS, st.booleans(), st.none())

_WILDCARDS = st.sampled_from(["*", "x*", "*x", "x*y", "*y*", "x\\*", "xy"])
_LIKE = st.one_of(
    *(
        st.fixed_dictionaries({kind: _TEXTS.filter(bool)})
        for kind in ("prefix", "suffix", "equals-ignore-case")
    ),
    *(
        st.fixed_dictionaries({kind: st.lists(_TEXTS.filter(bool), min_size=1, max_size=2)})
        for kind in ("prefix", "suffix", "equals-ignore-case")
    ),
    st.fixed_dictionaries({"wildcard": _WILDCARDS}),
)
_FOLDED = st.fixed_dictionaries({"equals-ignore-case": _TEXTS})


def _ranges(bottom: float, top: float, operators: tuple[str, str]) -> dict[str, Any]:
    return {"numeric": [operators[0], min(bottom, top), operators[1], max(bottom, top)]}


_NUMERIC = st.one_of(
    st.builds(
        lambda operator, number: {"numeric": [operator, number]},
        st.sampled_from(["=", "<", "<=", ">", ">="]),
        _NUMBERS,
    ),
    st.builds(
        _ranges,
        st.sampled_from([-1, 0, 1]),
        st.sampled_from([1.5, 2, 100]),
        st.tuples(st.sampled_from([">", ">="]), st.sampled_from(["<", "<="])),
    ),
)
_TERMS = st.one_of(
    _SCALARS,
    _SCALARS,
    _NUMERIC,
    st.fixed_dictionaries({"prefix": _TEXTS | _FOLDED}),
    st.fixed_dictionaries({"suffix": _TEXTS | _FOLDED}),
    _FOLDED,
    st.fixed_dictionaries({"wildcard": _WILDCARDS}),
    st.fixed_dictionaries({"cidr": st.sampled_from(["10.0.0.0/24", "10.0.0.0/16", "::/64"])}),
    st.fixed_dictionaries({"exists": st.booleans()}),
    st.fixed_dictionaries(
        {"anything-but": _TEXTS | _NUMBERS | _LIKE | st.lists(_TEXTS, min_size=1, max_size=2)}
    ),
)
_RULES = st.lists(_TERMS, min_size=1, max_size=3)


def _objects(rules: st.SearchStrategy[Any], largest: int) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(_NAMES, rules, min_size=1, max_size=largest)


_INNER = _objects(_RULES, 2)
_OR = st.fixed_dictionaries({"$or": st.lists(_INNER, min_size=2, max_size=2)})
_FLAT = _objects(_RULES, 2) | _OR | st.builds(lambda one, other: one | other, _objects(_RULES, 1), _OR)
_NESTED = _objects(_RULES | _INNER | _OR, 2)

POLICIES_OF_ATTRIBUTES = st.builds(json.dumps, _FLAT)
POLICIES_OF_BODIES = st.builds(json.dumps, _NESTED | _FLAT | _objects(_RULES, 1))
"""Some have too many keys."""

_VALUES = st.recursive(
    _SCALARS,
    lambda each: st.lists(each, max_size=3) | st.dictionaries(_NAMES, each, max_size=3),
    max_leaves=6,
)
_RECORDS = st.lists(st.dictionaries(st.sampled_from(["a", "b"]), _SCALARS, max_size=2), max_size=3)
BODIES = st.builds(json.dumps, st.dictionaries(_NAMES, _SCALARS | _VALUES | _RECORDS, min_size=2, max_size=4))

ATTRIBUTES = st.dictionaries(
    _NAMES,
    st.one_of(
        st.tuples(st.just("String"), _TEXTS),
        st.tuples(st.just("Number"), _NUMBERS.map(str)),
        st.tuples(st.just("String.Array"), st.lists(_SCALARS, max_size=3).map(json.dumps)),
    ),
    max_size=3,
)
