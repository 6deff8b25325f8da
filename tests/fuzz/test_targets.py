"""Every target, briefly: its seeds, then inputs that hypothesis makes of them. ``make fuzz`` looks for longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutation import inputs_of
from fuzz.targets import SHARES, load

EXAMPLES = 300


@pytest.mark.parametrize("name", SHARES)
def test_every_seed_keeps_the_promises(name: str) -> None:
    target = load(name)
    assert target.seeds
    for seed in target.seeds:
        target.check(seed)


@pytest.mark.parametrize("name", SHARES)
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_no_input_breaks_a_promise(name: str, data: st.DataObject) -> None:
    target = load(name)
    target.check(data.draw(inputs_of(target)))
