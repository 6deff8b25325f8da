"""With two processes."""

from e2e.test_secured import *  # noqa: F403
