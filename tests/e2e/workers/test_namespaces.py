"""With two workers."""

from e2e.test_namespaces import *  # noqa: F403
