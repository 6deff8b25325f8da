"""With two processes."""

from e2e.test_queues import *  # noqa: F403
