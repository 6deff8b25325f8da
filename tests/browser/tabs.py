"""A real browser: Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

from support.process import ServerProcess
from support.secured import Secured

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome") or ""
SCREENSHOTS = os.environ.get("SCREENSHOTS")  # a folder: pictures of the pages are put there
ACCOUNT = "000000000000"  # of the server itself
# No sandbox, since CI runs as root; and no connections to anything but the server.
_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if not CHROMIUM:
        pytest.skip("no Chromium: install it, or name it in the variable CHROMIUM")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        yield running
        running.close()


class Tab:
    """A page of the console, on which nothing may go wrong unnoticed: errors of scripts and everything that the
    Content-Security-Policy has blocked fail the test."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._printed)
        page.on("dialog", lambda dialog: self.problems.append(f"dialog: {dialog.message}"))

    def _printed(self, message: Any) -> None:
        # Statuses of requests that the server refused are shown on the page, and logged by the browser besides.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.problems.append(message.text)

    def open(self, address: str = "#/queues") -> Tab:
        self.page.goto("about:blank")
        self.page.goto(f"{self.url}/console/{address}")
        return self

    def sign_in(self, secured: Secured, name: str, address: str = "#/queues") -> Page:
        key, secret = secured.keys[name]
        self.open(address)
        self.page.get_by_label("Access key").fill(key)
        self.page.get_by_label("Secret key").fill(secret)
        self.page.get_by_role("button", name="Sign in").click()
        return self.page

    def picture(self, name: str) -> None:
        if SCREENSHOTS:
            self.page.screenshot(path=str(Path(SCREENSHOTS) / f"{name}.png"))

    def accessible(self) -> None:
        """By the rules of axe, of which none may be broken."""
        results = Axe().run(self.page).response["violations"]
        broken = [(each["id"], [node["target"] for node in each["nodes"]]) for each in results]
        assert broken == [], json.dumps(broken, indent=1)


@pytest.fixture
def new_tab(browser: Browser) -> Iterator[Callable[..., Tab]]:
    tabs: list[Tab] = []

    def make(server: ServerProcess, **context: Any) -> Tab:
        opened = browser.new_context(viewport={"width": 1280, "height": 800}, **context)
        tabs.append(Tab(opened.new_page(), server.url))
        return tabs[-1]

    yield make
    for tab in tabs:
        tab.page.context.close()
    assert [tab.problems for tab in tabs if tab.problems] == []


@pytest.fixture
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory", "--no-relaxed-waits") as running:
        yield running


@pytest.fixture
def tab(server: ServerProcess, new_tab: Callable[..., Tab]) -> Tab:
    return new_tab(server)


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    found = Secured(tmp_path_factory.mktemp("secured"))
    found.add("alice", "administrator", account=ACCOUNT)
    found.add("carol", "sqs-full-access", account=ACCOUNT)
    found.add("reader", "sqs-read-only", "penstock-read-only", account=ACCOUNT)
    no_scaling = found.folder / "no-scaling.json"
    statement = {"Effect": "Deny", "Action": "penstock:GetScaling", "Resource": "*"}
    no_scaling.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
    found.add("bob", "sqs-read-only", "penstock-read-only", str(no_scaling), account=ACCOUNT)
    one_topic = found.folder / "one-topic.json"
    arn = f"arn:aws:sns:us-east-1:{ACCOUNT}:shop-*"
    allowed = {"Effect": "Allow", "Action": ["sns:*", "penstock:*"], "Resource": arn}
    one_topic.write_text(json.dumps({"Version": "2012-10-17", "Statement": allowed}))
    found.add("shop", str(one_topic), account=ACCOUNT)
    with found.running("--region", "us-east-1", "--workers", "2"):
        yield found
