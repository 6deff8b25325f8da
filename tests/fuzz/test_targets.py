"""Every target, briefly: its seeds, then mutations of them by hypothesis. ``make fuzz`` runs longer."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.mutation import inputs_of
from fuzz.targets import SHARES, load
from support.generated import examples
from support.rows import every_row

EXAMPLES = 300


@every_row("name", SHARES)
def test_every_seed_passes(name: str) -> None:
    target = load(name)
    assert target.seeds
    for seed in target.seeds:
        target.check(seed)


@pytest.mark.parametrize("name", SHARES)
@settings(max_examples=examples(EXAMPLES), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_every_mutated_input_passes(name: str, data: st.DataObject) -> None:
    target = load(name)
    target.check(data.draw(inputs_of(target)))
