"""The credentials that Penstock is measured with: one user, whose key is the load generator's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from bench.load_client import ACCESS_KEY, SECRET_KEY
from bench.process import HERE, Checkout


def make_credentials(folder: Path, checkout: Checkout = HERE) -> Path:
    """A credentials file with a root key beside it, made by the checkout's own command."""
    # ``add`` is an alias of ``create`` that earlier releases know too.
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "credentials.toml"
    add = ["user", "add", "bench", "--policy", "sqs-full-access", "--key", ACCESS_KEY]
    if checkout.has_topics:
        add += ["--policy", "sns-full-access"]
    subprocess.run(
        checkout.command(*add, "--credentials", str(file)), input=f"{SECRET_KEY}\n", text=True, check=True,
        env={**os.environ, **checkout.environment}, capture_output=True,
    )  # fmt: skip
    return file
