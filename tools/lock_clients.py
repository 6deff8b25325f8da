"""Writes which versions the suites of Python clients are tested with. ``make lock`` runs it.

Each suite has an environment of its own below ``.clients``, and so a file of its own in ``constraints/clients``.
"""

from __future__ import annotations

import shutil

from clients.run import Runner
from clients.suites import CACHE, LOCKED, ROOT, SUITES, PythonSuite


def main() -> None:
    CACHE.mkdir(exist_ok=True)
    LOCKED.mkdir(parents=True, exist_ok=True)
    for suite in SUITES:
        if not isinstance(suite, PythonSuite) or any(tool.missing() for tool in suite.tools):
            continue
        print(f"{suite.client} …", flush=True)
        suite.versions.unlink(missing_ok=True)
        shutil.rmtree(suite.folder, ignore_errors=True)
        run = Runner(CACHE / f"{suite.name}.log", None)
        suite.install(run)
        suite.versions.write_text(run([suite.python, "-m", "pip", "freeze", "--exclude-editable"], ROOT))


if __name__ == "__main__":
    main()
