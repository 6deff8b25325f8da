"""Writes the pages of the site: docs/, the Markdown files at the root of the repository, and references
that are made from the code.

The same Markdown is read on GitHub and on the site. There, links lead to files of the repository; here, to pages of
the site where there is one, and to the repository otherwise.

.venv/bin/python website/pages.py FOLDER
"""

from __future__ import annotations

import posixpath
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path

from admin_reference import admin_reference

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/penstock-mq/penstock/blob/main"
AT_THE_ROOT = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
}
PACKAGES = ("penstock.client", "penstock.testing")

_LINK = re.compile(r"\]\((?!https?://|#)([^)\s#]+)(#[^)\s]*)?\)")


def pages() -> dict[str, str]:
    """The page of each document, both as paths: ``docs/running.md`` is at ``running.md``."""
    documents = (file.relative_to(ROOT).as_posix() for file in (ROOT / "docs").rglob("*.md"))
    return {**AT_THE_ROOT, **{document: document.removeprefix("docs/") for document in documents}}


def moved(markdown: str, document: str, page: str) -> str:
    """The text of a document with links that fit its page."""
    known = pages()

    def link(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(document), found[1]))
        anchor = found[2] or ""
        if target in known or (target.startswith("docs/") and (ROOT / target).is_file()):
            other = known.get(target, target.removeprefix("docs/"))
            return f"]({posixpath.relpath(other, posixpath.dirname(page) or '.')}{anchor})"
        return f"]({REPOSITORY}/{target}{anchor})"

    return _LINK.sub(link, markdown)


def python_reference() -> str:
    """The page of the public names, which mkdocstrings fills in from signatures and docstrings."""
    parts = [
        "# Python reference",
        "Everything that can be imported from the packages for applications and tests.",
    ]
    for package in PACKAGES:
        module = import_module(package)
        parts += [f"## {package}", module.__doc__ or ""]
        parts += (f"::: {package}.{name}" for name in module.__all__)
    return "\n\n".join(parts) + "\n"


def write(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    shutil.copy(ROOT / "website/site.css", folder)
    (folder / "python.md").write_text(python_reference())
    (folder / "admin-api-reference.md").write_text(admin_reference())
    for document, page in pages().items():
        (folder / page).write_text(moved((ROOT / document).read_text(), document, page))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
