"""With two workers."""

from e2e.test_queues import *  # noqa: F403
