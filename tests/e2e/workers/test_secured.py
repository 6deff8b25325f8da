"""With two workers."""

from e2e.test_secured import *  # noqa: F403
