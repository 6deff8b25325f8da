"""With two processes."""

from e2e.test_namespaces import *  # noqa: F403
