"""The site of the documents, which `make docs-site` builds, loads nothing from other hosts and can be searched."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from support.documents import DOCUMENTS, ROOT

SITE = ROOT / "site"
PAGES = sorted(SITE.rglob("*.html"))


class Loaded(HTMLParser):
    """Addresses that a browser loads by itself with a page, and those of its links."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.links: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"] or "")
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev"):
            self.loads.append(values["href"] or "")
        if values.get("src"):
            self.loads.append(values["src"] or "")


def file_of(address: str, page: Path) -> Path:
    return SITE / address[1:] if address.startswith("/") else page.parent / address


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_loads_files_of_the_site_only(page: Path) -> None:
    for address in Loaded(page).loads:
        assert file_of(address, page).is_file(), address


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_pages_of_the_site_or_to_other_hosts(page: Path) -> None:
    for link in Loaded(page).links:
        path = link.partition("#")[0]
        assert not path or re.match("https?://", path) or file_of(path, page).exists(), link


def test_style_sheets_load_nothing_from_other_hosts() -> None:
    sheets = list(SITE.rglob("*.css"))
    assert len(sheets) > 1
    for sheet in sheets:
        assert not re.search(r"(@import|url\()\s*[\"']?https?:", sheet.read_text()), sheet.name


def test_every_document_can_be_found() -> None:
    index = json.loads((SITE / "search/search_index.json").read_text())
    pages = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert len(pages) >= len(DOCUMENTS)
    text = " ".join(entry["text"] for entry in index["docs"])
    assert "ReceiveMessageWaitTimeSeconds" in text and "GetCallerIdentity" in text
    (signature,) = {entry["location"] for entry in index["docs"]} & {"python.html#penstock.client.Client"}
    assert signature
