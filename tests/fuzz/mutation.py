"""Inputs for hypothesis: a seed changed in a few places, so that most of it is still valid."""

from __future__ import annotations

from hypothesis import strategies as st

from fuzz.targets import Target

CHANGES_MAX = 5


def inputs_of(target: Target) -> st.SearchStrategy[bytes]:
    return _mutated(target) | _spliced(target) | st.binary(max_size=200)


@st.composite
def _mutated(draw: st.DrawFn, target: Target) -> bytes:
    data = draw(st.sampled_from(target.seeds))
    inserted = st.sampled_from(target.words) | st.binary(max_size=4) | st.just(b"")
    for _ in range(draw(st.integers(0, CHANGES_MAX))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from([0, 0, 1, 1, 4, 16, len(data)])))
        times = draw(st.sampled_from([1, 1, 1, 1, 50]))
        data = data[:start] + draw(inserted) * times + data[end:]
    return data


@st.composite
def _spliced(draw: st.DrawFn, target: Target) -> bytes:
    """The head of one seed and the tail of another."""
    head, tail = draw(st.sampled_from(target.seeds)), draw(st.sampled_from(target.seeds))
    return head[: draw(st.integers(0, len(head)))] + tail[draw(st.integers(0, len(tail))) :]
