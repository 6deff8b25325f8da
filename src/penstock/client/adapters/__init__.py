"""Task frameworks on Penstock or Amazon SQS: one module for each, on the consumer and the clients of the SDK.

Each needs its framework, which an extra of the package installs: ``pip install 'penstock-mq[dramatiq]'``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around the imports of a framework: says what to install if it is missing."""
    try:
        yield
    except ImportError as error:
        text = f"{extra} is not installed ({error}): pip install 'penstock-mq[{extra}]'"
        raise ImportError(text, name=error.name) from error
