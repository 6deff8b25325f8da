"""The example of docs/recipes/celery.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from support.documents import ROOT, blocks, copy_example


def test_the_example_runs(celery_run: Any, tmp_path: Path) -> None:
    folder = copy_example("celery", tmp_path, celery_run.server.port)
    (send,) = (each for each in blocks(ROOT / "docs/recipes/celery.md", "sh") if "charge.delay" in each)
    program = send.partition("'")[2].partition("'")[0]
    worker = celery_run.start_worker("shop", folder)
    subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=60)
    log = celery_run.folder / "worker.log"
    celery_run.wait(lambda: "order 17: 450 cents charged" in log.read_text(errors="replace"))
    celery_run.kill_worker(worker)
