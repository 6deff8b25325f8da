"""The tests of namespaces, with two processes."""

from e2e.test_namespaces import *  # noqa: F403
