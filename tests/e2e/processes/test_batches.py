"""The tests of batches, with two processes."""

from e2e.test_batches import *  # noqa: F403
