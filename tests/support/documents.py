"""Reading the documents of the project: their code blocks, headings and links."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "CODE_OF_CONDUCT.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def blocks(document: Path, language: str) -> list[str]:
    return blocks_of(document.read_text(), language)


def blocks_of(text: str, language: str) -> list[str]:
    return [block for kind, block in _BLOCK.findall(text) if kind == language]


def links(text: str) -> list[str]:
    return _LINK.findall(text)


def anchors(document: Path) -> set[str]:
    """Returns the anchors that GitHub makes of headings."""
    prose = _BLOCK.sub("", document.read_text())
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(prose)}


def copy_example(name: str, folder: Path, port: int) -> Path:
    """Copies an example as a reader does, except for the port of the server."""
    copy = folder / name
    shutil.copytree(ROOT / "docs/examples" / name, copy)
    for file in copy.rglob("*.*"):
        if file.is_file():
            file.write_text(file.read_text().replace("9324", str(port)))
    return copy


def committable(names: set[str]) -> set[str]:
    """Those that .gitignore does not list; directories end with a slash."""
    command = ["git", "check-ignore", "--no-index", *names]
    ignored = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    return names - set(ignored.splitlines())
