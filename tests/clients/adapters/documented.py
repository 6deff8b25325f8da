"""Examples of docs/frameworks.md, as programs."""

from __future__ import annotations

from pathlib import Path

from support.documents import ROOT, blocks


def write_example(module: str, folder: Path) -> Path:
    """The example that imports the adapter ``module``, as the file that the document names."""
    (text,) = (
        block
        for block in blocks(ROOT / "docs/frameworks.md", "python")
        if f"adapters.{module} import" in block
    )
    file = folder / "tasks.py"
    file.write_text(text)
    return file
