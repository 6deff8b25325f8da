"""The health page that scripts written for LocalStack wait for, at the path they ask.

It says only what is true here: which services there are, whether they take requests, and who answers.
"""

from __future__ import annotations

from penstock import __version__

PATH = b"/_localstack/health"


def health_page(*, ready: bool) -> dict[str, object]:
    # Scripts look for "running" (or "available"): neither may be part of the words for "no".
    return {
        "services": {"sqs": "running" if ready else "not ready"},
        "edition": "penstock",
        "version": __version__,
    }
