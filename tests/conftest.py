"""What every test may rely on: nothing of the machine's own settings reaches a test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest

# The same examples in every run: a check that fails by chance says nothing about the change it judges. The long runs
# (PENSTOCK_HYPOTHESIS=long) look further, each time elsewhere.
LONG = os.environ.get("PENSTOCK_HYPOTHESIS") == "long"
hypothesis.settings.register_profile("penstock", derandomize=not LONG, deadline=None)
hypothesis.settings.load_profile("penstock")


@pytest.fixture(scope="session", autouse=True)
def bare_environment() -> Iterator[None]:
    """No Penstock setting and no AWS profile, key or endpoint of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("PENSTOCK_", "AWS_")):
                patch.delenv(name)
        patch.setenv("AWS_CONFIG_FILE", os.devnull)
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield
