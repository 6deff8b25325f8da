"""The tests of dead letters, with two processes."""

from e2e.test_dead_letters import *  # noqa: F403
