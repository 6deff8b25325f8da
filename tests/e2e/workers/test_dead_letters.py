"""With two workers."""

from e2e.test_dead_letters import *  # noqa: F403
