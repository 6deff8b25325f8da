"""With two processes."""

from e2e.test_fifo import *  # noqa: F403
