"""The web console in a real browser: every page, sign-in, hostile contents, phones, accessibility."""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.request
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from playwright.sync_api import Page, expect

from penstock.client import SendEntry, SigningKeys, SyncClient
from support.process import ServerProcess
from support.secured import Secured

if TYPE_CHECKING:
    from browser.tabs import Tab

pytest_plugins = ["browser.tabs"]

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "javascript:alert(1)",
    "'-alert(1)-'",
    "{{constructor.constructor('alert(1)')()}}",
    "</pre><iframe srcdoc='<script>parent.alert(1)</script>'></iframe>",
    "\u202e\u2066 reversed \u0085",
    '{"html": "<b onmouseover=alert(1)>", "n": 12345678901234567890}',
    "${alert(1)}`${alert(1)}`",
]


def sqs(server: ServerProcess, region: str = "us-east-1") -> Any:
    return boto3.client(
        "sqs", endpoint_url=server.url, region_name=region,
        aws_access_key_id="any", aws_secret_access_key="any",
    )  # fmt: skip


def make_shop(server: ServerProcess) -> str:
    """Queues of a small shop, some of whose orders have failed. The URL of its orders."""
    client = sqs(server)
    dead = client.create_queue(QueueName="orders-dead")["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    url: str = client.create_queue(QueueName="orders", Attributes={"RedrivePolicy": redrive})["QueueUrl"]
    client.create_queue(QueueName="invoices.fifo", Attributes={"FifoQueue": "true"})
    for number in range(12):
        body = json.dumps({"order": number, "customer": f"c-{number % 3}"})
        tenant = {"DataType": "String", "StringValue": f"t-{number % 3}"}
        client.send_message(QueueUrl=url, MessageBody=body, MessageAttributes={"tenant": tenant})
    for _ in range(2):  # the second receive makes dead letters of what the first one had
        client.receive_message(QueueUrl=url, MaxNumberOfMessages=4, VisibilityTimeout=0)
    client.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    return url


def row(page: Page, text: str) -> Any:
    return page.locator("tbody tr", has_text=text)


def test_a_new_server_shows_how_to_begin_and_then_the_first_queue(server: ServerProcess, tab: Tab) -> None:
    page = tab.open("").page
    expect(page.get_by_text("There are no queues yet")).to_be_visible()
    tab.picture("first-steps")
    tab.accessible()
    sqs(server).create_queue(QueueName="orders")
    expect(page.get_by_role("link", name="orders")).to_be_visible()


def test_the_example_of_the_first_steps_works(server: ServerProcess, tab: Tab) -> None:
    page = tab.open("").page
    example = page.locator("pre").first.inner_text()
    exec(example, {})
    expect(page.get_by_role("link", name="orders")).to_be_visible()
    expect(row(page, "orders").locator("td").nth(1)).to_have_text("1")


def test_queues_are_created_filtered_and_sorted(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open().page
    page.get_by_role("button", name="Create queue").click()
    page.get_by_label("Name", exact=True).fill("refunds")
    page.get_by_label("FIFO").check()
    tab.accessible()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name="refunds.fifo")).to_be_visible()
    page.get_by_role("link", name="Queues").click()
    expect(page.locator("tbody tr")).to_have_count(4)
    tab.picture("queues")
    tab.accessible()
    page.get_by_role("button", name="Waiting").click()
    expect(page.locator("tbody tr").first).to_contain_text("orders")
    page.keyboard.press("/")
    page.keyboard.type("dead")
    expect(page.locator("tbody tr")).to_have_count(1)
    assert "contains=dead" in page.url  # so that it can be shared and reloaded
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)


def test_totals_and_order_are_those_of_all_pages(server: ServerProcess, tab: Tab) -> None:
    with SyncClient(
        endpoint_url=server.url, region="us-east-1", credentials=SigningKeys("any", "any")
    ) as client:
        for number in range(205):
            client.send_message(client.create_queue(f"queue-{number:03}"), "x")
        largest = client.create_queue("zebra")
        for _ in range(4):
            client.send_message_batch(largest, [SendEntry(id=str(n), body="x") for n in range(10)])
    page = tab.open().page
    tiles = page.get_by_role("group", name="All queues").locator(".tile")
    pages = page.get_by_role("navigation", name="Pages of queues")

    def expect_page(number: int, rows: int, first: str) -> None:
        expect(pages).to_contain_text(f"Page {number} of 3")
        expect(page.locator("tbody tr")).to_have_count(rows)
        expect(page.locator("tbody tr").first).to_contain_text(first)
        expect(tiles.nth(0)).to_have_text("206queues")
        expect(tiles.nth(1)).to_have_text("245messages waiting")

    expect_page(1, 100, "queue-000")
    tab.picture("queues-many")
    tab.accessible()
    pages.get_by_role("button", name="Next page").click()
    expect_page(2, 100, "queue-100")
    pages.get_by_role("button", name="Next page").click()
    expect_page(3, 6, "queue-200")
    page.reload()
    expect_page(3, 6, "queue-200")
    pages.get_by_role("button", name="First page").click()
    pages.get_by_role("button", name="Next page").click()
    pages.get_by_role("button", name="Previous page").click()
    expect_page(1, 100, "queue-000")
    page.get_by_role("button", name="Waiting").click()
    expect_page(1, 100, "zebra")
    page.get_by_label("Filter by name").fill("zeb")
    expect(tiles.nth(0)).to_have_text("1queue that matches")
    expect(tiles.nth(1)).to_have_text("40messages waiting")


def test_a_queue_shows_its_figures_as_they_change(server: ServerProcess, tab: Tab) -> None:
    url = make_shop(server)
    page = tab.open("#/queue/orders").page
    waiting = page.locator(".tile", has_text="waiting").first
    expect(waiting).to_contain_text("8")
    expect(page.locator(".wiring")).to_contain_text("orders-dead")
    sqs(server).send_message(QueueUrl=url, MessageBody="one more")
    expect(waiting).to_contain_text("9")
    expect(page.locator(".u-legend").first).to_contain_text("in flight")
    for title in ("3 h", "15 days"):
        page.get_by_role("button", name=title, exact=True).click()
        expect(page.locator("figure")).to_have_count(4)
    tab.picture("queue")
    tab.accessible()


def work_off(server: ServerProcess, url: str, number: int) -> None:
    """As workers do it, so that a processing time is measured."""
    client = sqs(server)
    for _ in range(number):
        (message,) = client.receive_message(QueueUrl=url)["Messages"]
        client.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def tile(page: Page, text: str) -> Any:
    return page.get_by_role("region", name="Workers").locator(".tile", has_text=text).locator("b")


def test_a_queue_shows_how_many_workers_it_needs(server: ServerProcess, tab: Tab) -> None:
    url = sqs(server).create_queue(QueueName="orders")["QueueUrl"]
    page = tab.open("#/queue/orders").page
    workers = page.get_by_role("region", name="Workers")
    expect(workers).to_contain_text("Not enough data yet")
    expect(workers).to_contain_text("needs no worker")
    expect(tile(page, "suggested workers")).to_have_text("0")
    for _ in range(12):
        sqs(server).send_message(QueueUrl=url, MessageBody="x")
    expect(workers).to_contain_text("One worker is suggested for the 12 messages", timeout=20_000)
    expect(tile(page, "processing time")).to_have_text("–")

    work_off(server, url, 4)
    expect(workers).to_contain_text("Measured over the last five minutes", timeout=20_000)
    expect(tile(page, "processing time")).to_have_text(re.compile(r"^\d+ (ms|s)$"))
    expect(tile(page, "arrivals per second")).not_to_have_text("0")
    expect(tile(page, "departures per second")).not_to_have_text("0")
    page.get_by_label("Workers that run now").fill("4")
    page.get_by_label("Workers that run now").press("Enter")
    expect(tile(page, "backlog per worker")).to_have_text("2")
    page.get_by_label("Target latency (seconds)").fill("0.0001")
    page.get_by_label("Target latency (seconds)").press("Enter")
    expect(workers).to_contain_text("suggested workers for a latency of")
    expect(tile(page, "suggested workers")).to_have_text(re.compile(r"^[\d,]{2,}$"))
    page.reload()  # the targets are in the address
    expect(page.get_by_label("Target latency (seconds)")).to_have_value("0.0001")
    expect(tile(page, "suggested workers")).to_have_text(re.compile(r"^[\d,]{2,}$"))
    page.get_by_label("Target latency (seconds)").fill("-1")
    page.get_by_label("Target latency (seconds)").press("Enter")
    expect(workers.get_by_role("alert")).to_contain_text("latency_s")


def test_the_trigger_for_keda_asks_for_what_the_page_shows(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders?latency_s=300").page
    page.get_by_text("Scale by this with KEDA").click()
    shown = page.get_by_role("region", name="Workers").locator("pre")
    (trigger,) = yaml.safe_load(shown.inner_text())["triggers"]
    with urllib.request.urlopen(trigger["metadata"]["url"], timeout=30) as response:
        found = json.load(response)
    assert (found["queue"], found["latency_s"]) == ("orders", 300)
    expect(tile(page, "suggested worker")).to_have_text(str(found[trigger["metadata"]["valueLocation"]]))
    tab.picture("workers")
    tab.accessible()
    sqs(server, "eu-west-1").create_queue(QueueName="orders")
    page.get_by_label("Region").fill("eu-west-1")  # unsigned requests are not about it
    page.get_by_label("Region").press("Enter")
    page.get_by_text("Scale by this with KEDA").click()
    expect(shown).to_contain_text("aws-sqs-queue")
    (trigger,) = yaml.safe_load(shown.inner_text())["triggers"]
    asked = trigger["metadata"]
    assert (asked["awsRegion"], asked["awsEndpoint"]) == ("eu-west-1", server.url)
    assert sqs(server, "eu-west-1").get_queue_attributes(QueueUrl=asked["queueURL"])


def test_messages_are_looked_at_without_receiving_them(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders/messages").page
    expect(page.locator("tbody tr")).to_have_count(9)
    tab.picture("messages")
    tab.accessible()
    page.get_by_label("State").select_option("delayed")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_label("State").select_option("")
    json_filter = page.get_by_label("JSON: $.id = 17")
    json_filter.fill('$.customer = "c-1"')
    json_filter.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(3)
    page.locator("tbody tr button").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre").first).to_contain_text('"customer": "c-1"')
    expect(dialog).to_contain_text("sent by")
    tab.picture("message")
    tab.accessible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(page.locator("tbody tr").first).to_contain_text("waiting")


def test_messages_are_sent_edited_moved_and_deleted(server: ServerProcess, tab: Tab) -> None:
    client = sqs(server)
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    client.create_queue(QueueName="other")
    page = tab.open("#/queue/orders/messages").page
    page.get_by_role("button", name="Send message").click()
    page.get_by_label("Body", exact=True).fill('{"order": 1}')
    page.get_by_role("button", name="Add attribute").click()
    page.get_by_label("Name of attribute 1").fill("tenant")
    page.get_by_label("Value of attribute 1").fill("acme")
    tab.accessible()
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(1)

    page.locator("tbody tr button").click()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Body", exact=True).fill('{"order": 2}')
    page.get_by_role("button", name="Save", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("edited")
    expect(dialog).to_contain_text("acme")

    page.get_by_label("Move to queue").fill("other")
    page.get_by_role("button", name="Move", exact=True).click()
    expect(page.get_by_text("The queue is empty")).to_be_visible()
    page.goto(f"{tab.url}/console/#/queue/other/messages")
    page.locator("tbody tr button").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_role("button", name="Really delete").click()
    expect(page.get_by_text("The queue is empty")).to_be_visible()
    assert "Messages" not in client.receive_message(QueueUrl=url)


def test_a_change_of_a_message_that_was_changed_meanwhile_is_refused(server: ServerProcess, tab: Tab) -> None:
    client = sqs(server)
    url = client.create_queue(QueueName="orders")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody="first")
    page = tab.open("#/queue/orders/messages").page
    page.locator("tbody tr button").click()
    page.get_by_role("button", name="Edit", exact=True).click()
    page.get_by_label("Body", exact=True).fill("from the browser")
    shown = page.locator("dialog h2").first.inner_text().removeprefix("Message ")
    page.request.fetch(
        f"{tab.url}/console/api/admin/v1/queues/orders/messages/{shown}",
        method="PATCH", data=json.dumps({"body": "from elsewhere"}),
        headers={"X-Penstock-Console": "1", "Content-Type": "application/json"},
    )  # fmt: skip
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".notice.error")).to_contain_text("has changed since")
    assert client.receive_message(QueueUrl=url)["Messages"][0]["Body"] == "from elsewhere"


def test_dead_letters_are_redriven_after_a_look_at_what_would_happen(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders-dead").page
    page.get_by_role("button", name="Redrive").click()
    page.get_by_role("button", name="See what would happen").click()
    expect(page.get_by_role("dialog")).to_contain_text("4 messages can be changed")
    tab.accessible()
    page.get_by_role("button", name="Redrive 4 messages").click()
    expect(page.get_by_role("dialog")).to_contain_text("completed")
    tab.picture("redrive")
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Tasks").click()
    expect(page.locator("main")).to_contain_text("4 of 4 messages changed")
    page.goto(f"{tab.url}/console/#/queue/orders")
    expect(page.locator(".tile", has_text="waiting").first).to_contain_text("12")


def test_messages_that_match_are_deleted_only_after_a_choice_and_the_name_of_the_queue(
    server: ServerProcess, tab: Tab
) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders/messages?state=visible").page
    page.get_by_role("button", name="Change all that match").click()
    dialog = page.get_by_role("dialog")
    what, look = page.get_by_label("What to do"), page.get_by_role("button", name="See what would happen")
    expect(what).to_have_value("")
    expect(look).to_be_disabled()
    page.get_by_label("At most this many a second").press("Enter")
    expect(dialog.get_by_role("button", name="messages")).to_have_count(0)
    what.select_option("delete")
    look.click()
    expect(dialog).to_contain_text("8 messages will be deleted")
    start = dialog.get_by_role("button", name="Delete 8 messages")
    expect(start).to_be_disabled()
    tab.picture("delete-all")
    tab.accessible()
    page.get_by_label("Type orders to confirm").fill("order")
    expect(start).to_be_disabled()
    what.select_option("reset")  # loses nothing: no name is asked for
    look.click()
    expect(dialog.get_by_role("button", name="Reset counts of 8 messages")).to_be_enabled()
    what.select_option("delete")
    look.click()
    page.get_by_label("Type orders to confirm").fill("orders")
    start.click()
    expect(dialog).to_contain_text("completed")
    page.keyboard.press("Escape")
    expect(page.get_by_text("No message matches")).to_be_visible()


def test_settings_policy_and_tags_are_changed(server: ServerProcess, tab: Tab) -> None:
    client, url = sqs(server), make_shop(server)
    page = tab.open("#/queue/orders/settings").page
    page.get_by_label("Visibility timeout (seconds)").fill("77")
    page.get_by_role("button", name="Save settings").click()
    page.get_by_label("Key of the tag").fill("team")
    page.get_by_label("Value of the tag").fill("shop")
    page.get_by_role("button", name="Set tag").click()
    expect(page.get_by_role("button", name="Remove tag team")).to_be_visible()
    tab.picture("settings")
    tab.accessible()
    assert client.list_queue_tags(QueueUrl=url)["Tags"] == {"team": "shop"}
    names = ["VisibilityTimeout"]
    assert client.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"][names[0]] == "77"
    page.get_by_label("Policy", exact=True).fill("{not json")
    page.get_by_role("button", name="Save Policy", exact=True).click()
    expect(page.locator(".notice.error")).to_be_visible()


def test_a_purge_wants_the_name_of_the_queue(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders").page
    page.get_by_role("button", name="Purge").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Purge")
    expect(confirm).to_be_disabled()
    expect(page.get_by_role("dialog")).to_contain_text("All 9 messages")
    page.get_by_label("Type orders to confirm").fill("orders")
    confirm.click()
    expect(page.locator(".tile", has_text="waiting").first).to_contain_text("0")


@pytest.mark.parametrize("address", ["#/queues", "#/queue/orders", "#/queue/orders/messages", "#/server"])
def test_pages_in_dark_colours_and_on_a_phone(
    server: ServerProcess, new_tab: Callable[..., Tab], address: str
) -> None:
    make_shop(server)
    name = address.replace("#/", "").replace("/", "-")
    dark = new_tab(server, color_scheme="dark").open(address)
    expect(dark.page.locator("main h1")).to_be_visible()
    dark.picture(f"dark-{name}")
    dark.accessible()
    phone = new_tab(server)
    phone.page.set_viewport_size({"width": 390, "height": 800})
    phone.open(address)
    expect(phone.page.locator("main h1")).to_be_visible()
    phone.picture(f"phone-{name}")
    wider = phone.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
    assert not wider, "the page itself scrolls sideways"
    phone.accessible()


def test_the_navigation_marks_the_page_and_its_section(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/queue/orders").page
    links = page.get_by_role("navigation", name="Pages")
    marked = links.locator("[aria-current]")
    expect(marked).to_have_text(["Queues"])
    expect(marked).to_have_attribute("aria-current", "page")
    for name in ("Alarms", "Dashboards", "Audit log"):
        links.get_by_role("link", name=name).click()
        expect(page.get_by_role("heading", name=name, level=1)).to_be_visible()
        expect(marked).to_have_text(["Server", name])
        expect(marked.first).to_have_attribute("aria-current", "true")
        expect(marked.last).to_have_attribute("aria-current", "page")
    links.get_by_role("link", name="Server").press("Enter")
    expect(marked).to_have_text(["Server"])
    tab.picture("server")
    expect(page.get_by_role("button", name="Menu")).not_to_be_visible()


def test_a_narrow_screen_has_the_navigation_in_a_menu(server: ServerProcess, tab: Tab) -> None:
    page = tab.page
    page.set_viewport_size({"width": 390, "height": 800})
    tab.open("#/alarms")
    links, menu = page.get_by_role("navigation", name="Pages"), page.get_by_role("button", name="Menu")

    def expect_closed(title: str) -> None:
        expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
        expect(links).not_to_be_visible()
        expect(menu).to_be_focused()

    def open_menu(title: str) -> None:
        menu.press("Enter")
        expect(links.get_by_role("link", name=title)).to_be_focused()

    expect(page.get_by_role("heading", name="Alarms", exact=True)).to_be_visible()
    expect(links).not_to_be_visible()
    open_menu("Alarms")
    tab.picture("phone-menu")
    tab.accessible()
    page.keyboard.press("Escape")
    expect_closed("Alarms")
    open_menu("Alarms")
    page.mouse.click(380, 400)  # beside it
    expect_closed("Alarms")
    open_menu("Alarms")
    page.keyboard.press("Tab")
    expect(links.get_by_role("link", name="Dashboards")).to_be_focused()
    page.keyboard.press("Enter")
    expect_closed("Dashboards")
    open_menu("Dashboards")
    links.get_by_role("link", name="Dashboards").click()  # the page that is shown already
    expect_closed("Dashboards")
    open_menu("Dashboards")
    page.go_back()
    expect_closed("Alarms")


def test_the_colours_can_be_chosen_and_are_kept(tab: Tab) -> None:
    page = tab.open().page
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_keys_open_pages_and_rows(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open().page
    expect(page.locator("tbody tr")).to_have_count(3)
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="orders", exact=True)).to_be_visible()
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="Server")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("previous row")


@pytest.mark.parametrize("text", HOSTILE)
def test_contents_of_messages_are_shown_and_never_run(server: ServerProcess, tab: Tab, text: str) -> None:
    client = sqs(server)
    url = client.create_queue(QueueName="q")["QueueUrl"]
    attribute = {"DataType": "String", "StringValue": text}
    group = "<img/src=x/onerror=alert(1)>"
    client.send_message(
        QueueUrl=url, MessageBody=text, MessageAttributes={"a": attribute}, MessageGroupId=group
    )
    page = tab.open("#/queue/q/messages").page
    page.locator("tbody tr button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre").first).to_be_visible()
    if not text.startswith('{"'):
        assert dialog.locator("pre").first.inner_text().strip() == text.strip()
    else:
        expect(dialog.locator("pre").first).to_contain_text("12345678901234567890")
    expect(dialog).to_contain_text(group)
    assert page.evaluate("document.querySelectorAll('main :is(script, iframe, img, svg)').length") == 0


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def celery_body(text: str, *, content_type: str = "application/json") -> str:
    """Returns what kombu sends for the task shop.charge(text, amount=12345678901234567890)."""
    content = json.dumps([[text], {"amount": 12345678901234567890}, {"callbacks": None}])
    message = {
        "body": base64_of(content), "content-encoding": "utf-8", "content-type": content_type,
        "headers": {
            "lang": "py", "task": f"shop.charge {text}", "id": "bc75da0d", "eta": None, "retries": 2,
            "timelimit": [None, None], "argsrepr": f"({text!r},)", "kwargsrepr": "{}", "origin": text,
        },
        "properties": {"body_encoding": "base64", "delivery_info": {"exchange": ""}, "priority": 0},
    }  # fmt: skip
    return base64_of(json.dumps(message))


def dramatiq_body(text: str) -> str:
    return json.dumps(
        {
            "queue_name": "default", "actor_name": f"charge {text}", "args": [text], "kwargs": {},
            "options": {"retries": 1}, "message_id": "07a2122a", "message_timestamp": 1794927498056,
        }
    )  # fmt: skip


def sns_body(text: str) -> str:
    return json.dumps(
        {
            "Type": "Notification", "MessageId": "m-1", "TopicArn": "arn:aws:sns:us-east-1:1:orders",
            "Subject": f"subject {text}", "Message": json.dumps({"text": text}), "Timestamp": "2026-11-17T12:00:00Z",
            "MessageAttributes": {f"name {text}": {"Type": "String", "Value": text}, "odd": None, "list": [1]},
        }
    )  # fmt: skip


def show_message(server: ServerProcess, tab: Tab, body: str) -> Any:
    """The dialog of the only message of a queue."""
    client = sqs(server)
    url = client.create_queue(QueueName=f"q{time.monotonic_ns()}")["QueueUrl"]
    client.send_message(QueueUrl=url, MessageBody=body)
    page = tab.open(f"#/queue/{url.rpartition('/')[2]}/messages").page
    page.locator("tbody tr button").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("pre").first).to_be_visible()
    return dialog


def test_a_task_of_celery_is_decoded_beside_the_body(server: ServerProcess, tab: Tab) -> None:
    dialog = show_message(server, tab, celery_body("o-17"))
    expect(dialog.locator("pre").first).to_have_text(celery_body("o-17"))
    task = dialog.get_by_role("group", name="Celery task")
    expect(task.locator("dd").first).to_have_text("shop.charge o-17")
    expect(task.locator("pre")).to_contain_text('"o-17"')
    expect(task.locator("pre")).to_contain_text("12345678901234567890")  # as it was written
    tab.picture("celery")
    tab.accessible()


def test_a_pickled_task_of_celery_shows_what_its_headers_say(server: ServerProcess, tab: Tab) -> None:
    dialog = show_message(server, tab, celery_body("o-17", content_type="application/x-python-serialize"))
    task = dialog.get_by_role("group", name="Celery task")
    expect(task).to_contain_text("('o-17',)")
    expect(task.locator("pre")).to_have_count(0)


def test_messages_of_dramatiq_and_sns_are_explained(server: ServerProcess, tab: Tab) -> None:
    dialog = show_message(server, tab, dramatiq_body("o-17"))
    expect(dialog.get_by_role("group", name="Dramatiq message").locator("dd").first).to_have_text(
        "charge o-17"
    )
    dialog = show_message(server, tab, base64_of(dramatiq_body("o-18")))  # as another broker for SQS sends it
    expect(dialog.get_by_role("group", name="Dramatiq message").locator("pre")).to_contain_text('"o-18"')
    dialog = show_message(server, tab, sns_body("o-19"))
    notification = dialog.get_by_role("group", name="SNS notification")
    expect(notification.locator("pre")).to_have_text('{\n  "text": "o-19"\n}')
    expect(notification).to_contain_text("arn:aws:sns:us-east-1:1:orders")


@pytest.mark.parametrize(
    "body",
    [
        "plain text", "abcd", "MTIz", '"text"', "null", "[]", base64_of("\xff text"), '{"headers": {}, "body": "x"}',
        '{"Type": "Notification"}', '{"actor_name": 1}', '{"headers": {"task": "t"}, "properties": {}, "body": 5}',
    ],
)  # fmt: skip
def test_other_bodies_have_no_envelope(server: ServerProcess, tab: Tab, body: str) -> None:
    dialog = show_message(server, tab, body)
    expect(dialog.get_by_role("group")).to_have_count(0)


@pytest.mark.parametrize("text", HOSTILE)
def test_contents_of_envelopes_are_shown_and_never_run(server: ServerProcess, tab: Tab, text: str) -> None:
    for wrap in (celery_body, dramatiq_body, sns_body):
        dialog = show_message(server, tab, wrap(text))
        expect(dialog.get_by_role("group").locator("dd").first).to_be_visible()
        shown = "document.querySelectorAll('main :is(script, iframe, img, svg)').length"
        assert tab.page.evaluate(shown) == 0
        assert text.strip() in " ".join(dialog.get_by_role("group").locator("dd").all_text_contents())


def test_hostile_names_in_addresses_are_text(tab: Tab) -> None:
    page = tab.open("#/queue/%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E").page
    expect(page.locator("main")).to_contain_text("<img src=x onerror=alert(1)>")
    expect(page.locator("[role=alert]")).to_be_visible()


def test_a_lost_connection_is_said_and_comes_back(new_tab: Callable[..., Tab]) -> None:
    with ServerProcess("--memory") as server:
        tab = new_tab(server)
        page = tab.open().page
        expect(page.get_by_text("There are no queues yet")).to_be_visible()
        assert server.stop() == 0
        expect(page.locator("[role=alert]")).to_contain_text("Trying again")
    with ServerProcess("--memory", "--port", str(server.port)) as again:
        sqs(again).create_queue(QueueName="after")
        expect(page.get_by_role("link", name="after")).to_be_visible(timeout=30_000)


def cloudwatch(server: ServerProcess) -> Any:
    return boto3.client(
        "cloudwatch", endpoint_url=server.url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )  # fmt: skip


def test_alarms_are_created_shown_and_deleted(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    page = tab.open("#/alarms").page
    expect(page.get_by_text("No alarms yet")).to_be_visible()
    page.get_by_role("button", name="Create alarm").click()
    page.get_by_label("Name", exact=True).fill("dead <b>orders</b>")
    page.get_by_label("Queue", exact=True).fill("orders-dead")
    tab.accessible()
    page.get_by_role("button", name="Create", exact=True).click()
    expect(row(page, "dead <b>orders</b>")).to_contain_text("of orders-dead > 0, 1 × 60 s")
    # No data will ever change the state of this one: the server evaluates the other each minute.
    client = cloudwatch(server)
    client.put_metric_alarm(
        AlarmName="late <b>orders</b>", Namespace="Shop", MetricName="Late", Statistic="Sum", Period=60,
        EvaluationPeriods=1, Threshold=0, ComparisonOperator="GreaterThanThreshold", TreatMissingData="ignore",
    )  # fmt: skip
    client.set_alarm_state(AlarmName="late <b>orders</b>", StateValue="ALARM", StateReason="<i>tried</i>")
    expect(row(page, "late <b>orders</b>").get_by_role("cell").first).to_have_text("alarm", timeout=15_000)
    tab.picture("alarms")
    tab.accessible()
    page.get_by_role("button", name="late <b>orders</b>").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("<i>tried</i>")
    expect(dialog).to_contain_text("Alarm updated from INSUFFICIENT_DATA to ALARM")
    tab.picture("alarm")
    tab.accessible()
    page.get_by_role("button", name="Switch actions off").click()
    expect(page.get_by_role("button", name="Switch actions on")).to_be_visible()
    dialog.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row(page, "late <b>orders</b>")).to_have_count(0)
    page.get_by_role("button", name="dead <b>orders</b>").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No alarms yet")).to_be_visible()


def test_dashboards_show_text_and_metrics(server: ServerProcess, tab: Tab) -> None:
    make_shop(server)
    client = cloudwatch(server)
    client.put_metric_data(Namespace="Shop", MetricData=[{"MetricName": "Revenue", "Value": 17.5}])
    body = {
        "widgets": [
            {"type": "text", "properties": {"markdown": "# Shop\n- <script>alert(1)</script>"}},
            {"type": "metric", "properties": {"title": "Money", "stat": "Sum", "metrics": [
                ["Shop", "Revenue", {"id": "m1", "label": "revenue"}],
                [{"expression": "m1 * 2", "label": "doubled"}],
            ]}},
        ]
    }  # fmt: skip
    client.put_dashboard(DashboardName="shop", DashboardBody=json.dumps(body))
    page = tab.open("#/dashboards").page
    page.get_by_role("link", name="shop").click()
    expect(page.get_by_text("<script>alert(1)</script>")).to_be_visible()
    expect(page.locator(".u-legend")).to_contain_text("doubled")
    tab.picture("dashboard")
    tab.accessible()
    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Body").fill("{")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".notice.error")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("No dashboards yet")).to_be_visible()


WATCH_LONG_TASKS = """
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.longest = Math.max(window.longest, entry.duration);
    }).observe({type: "longtask", buffered: true});
"""


def test_a_thousand_queues_and_a_hundred_thousand_messages(server: ServerProcess, tab: Tab) -> None:
    """Prints how long pages take, and for how long they stand still; `pytest -s` shows it."""
    with SyncClient(
        endpoint_url=server.url, region="us-east-1", credentials=SigningKeys("any", "any")
    ) as client:
        for number in range(1000):
            client.create_queue(f"queue-{number:04}")
        url = client.create_queue("large")
        entries = [SendEntry(id=str(number), body='{"order": 1}') for number in range(10)]
        for _ in range(10_000):
            client.send_message_batch(url, entries)
    page = tab.page
    page.add_init_script(WATCH_LONG_TASKS)
    for address, rows in (("#/queues", 100), ("#/queue/large/messages", 50)):
        began = time.monotonic()
        tab.open(address)
        expect(page.locator("tbody tr")).to_have_count(rows, timeout=30_000)
        shown = time.monotonic() - began
        page.wait_for_timeout(3_000)  # some live updates
        still_ms = page.evaluate("window.longest")
        print(
            f"{address}: {rows} rows after {shown:.2f} s, the page stood still for {still_ms:.0f} ms at most"
        )
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("on page 2")).to_be_visible()


# With credentials.


def test_signing_in_and_out(secured: Secured, new_tab: Callable[..., Tab]) -> None:
    tab = new_tab(secured.server)
    page = tab.open().page
    expect(page.get_by_role("heading", name="Sign in to Penstock")).to_be_visible()
    tab.picture("sign-in")
    tab.accessible()
    page.get_by_label("Access key").fill("AKIAWRONG")
    page.get_by_label("Secret key").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("[role=alert]")).to_contain_text("does not accept")
    page = tab.sign_in(secured, "alice")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    kept = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])")
    assert not any(secret in kept for secret in secured.keys["alice"])
    page.get_by_role("link", name="Audit log").click()
    expect(
        row(page, "GetSessionToken").or_(row(page, "CreateQueue")).or_(page.get_by_text("No events")).first
    ).to_be_visible()
    tab.picture("audit")
    tab.accessible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Penstock")).to_be_visible()
    assert page.context.cookies() == []


def test_what_a_user_may_not_do_is_not_offered(secured: Secured, new_tab: Callable[..., Tab]) -> None:
    alice = new_tab(secured.server).sign_in(secured, "alice")
    alice.get_by_role("button", name="Create queue").click()
    alice.get_by_label("Name", exact=True).fill("shared")
    alice.get_by_role("button", name="Create", exact=True).click()
    expect(alice.get_by_role("button", name="Purge")).to_be_visible()
    alice.goto(f"{secured.server.url}/console/#/queue/shared/messages")
    alice.get_by_role("button", name="Send message").click()
    alice.get_by_label("Body", exact=True).fill("hello")
    alice.get_by_role("button", name="Send", exact=True).click()
    expect(alice.locator("tbody tr")).to_have_count(1)

    reader = new_tab(secured.server).sign_in(secured, "reader")
    expect(reader.get_by_role("link", name="shared")).to_be_visible()
    expect(reader.get_by_role("button", name="Create queue")).to_have_count(0)
    reader.get_by_role("link", name="shared").click()
    expect(reader.get_by_role("heading", name="shared")).to_be_visible()
    for name in ("Purge", "Delete"):
        expect(reader.get_by_role("button", name=name)).to_have_count(0)
    expect(reader.get_by_role("region", name="Workers")).to_contain_text("One worker is suggested")
    reader.goto(f"{secured.server.url}/console/#/queue/shared/messages")
    reader.locator("tbody tr button").click()
    expect(reader.get_by_role("dialog").locator("pre").first).to_have_text("hello")
    for name in ("Edit", "Move", "Delete", "To front"):
        expect(reader.get_by_role("dialog").get_by_role("button", name=name, exact=True)).to_have_count(0)

    bob = new_tab(secured.server).sign_in(secured, "bob")  # as reader, but for GetScaling
    bob.get_by_role("link", name="shared").click()
    expect(bob.get_by_role("heading", name="Charts")).to_be_visible()
    expect(bob.get_by_role("region", name="Workers")).to_have_count(0)


def test_a_user_without_the_admin_api_sees_queues_and_the_command_that_allows_more(
    secured: Secured, new_tab: Callable[..., Tab]
) -> None:
    client = secured.client("alice", region_name="us-east-1")
    url = client.create_queue(QueueName="carols-queue")["QueueUrl"]
    for _ in range(3):
        client.send_message(QueueUrl=url, MessageBody="x")
    tab = new_tab(secured.server)
    page = tab.open().page
    expect(page.get_by_text("penstock user create NAME --policy administrator")).to_be_visible()
    page = tab.sign_in(secured, "carol")
    expect(row(page, "carols-queue").locator("td").nth(1)).to_have_text("3")
    expect(page.get_by_role("alert")).to_have_count(0)
    hint = page.get_by_role("region", name="Not allowed")

    def expect_hint(permission: str, policy: str) -> None:
        expect(hint).to_contain_text(f"user/carol lacks the permission {permission}")
        expect(hint.get_by_text(f"penstock policy attach {policy} --user carol")).to_be_visible()
        expect(hint.get_by_role("button", name="Copy")).to_be_visible()
        tab.accessible()

    expect_hint("penstock:ListQueues", "penstock-read-only")
    tab.picture("not-allowed")
    page.get_by_role("link", name="carols-queue").click()
    expect_hint("penstock:GetQueue", "penstock-read-only")
    page.goto(f"{secured.server.url}/console/#/alarms")
    expect_hint("cloudwatch:DescribeAlarms", "cloudwatch-read-only")
    page.goto(f"{secured.server.url}/console/#/audit")
    expect_hint("penstock:ListAuditEvents", "penstock-read-only")

    for policy in ("penstock-read-only", "cloudwatch-read-only"):
        secured.penstock("policy", "attach", policy, "--user", "carol", *secured.files)
    page.goto(f"{secured.server.url}/console/#/queues")
    tiles = page.get_by_role("group", name="All queues")
    while not tiles.is_visible():  # a server reads changed credentials within two seconds
        page.reload()
        page.wait_for_timeout(300)
    expect(hint).to_have_count(0)
    expect(page.get_by_role("link", name="Audit log")).to_be_visible()


def test_an_expired_session_leads_to_the_sign_in(secured: Secured, new_tab: Callable[..., Tab]) -> None:
    page = new_tab(secured.server).sign_in(secured, "alice")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    page.context.clear_cookies()
    page.evaluate("location.hash = '#/server'")
    expect(page.get_by_role("heading", name="Sign in to Penstock")).to_be_visible()


def test_another_site_cannot_act_for_a_signed_in_user(secured: Secured, new_tab: Callable[..., Tab]) -> None:
    """A page of another origin, in the same browser."""
    page = new_tab(secured.server).sign_in(secured, "alice")
    expect(page.get_by_role("heading", name="Queues")).to_be_visible()
    target = f"{secured.server.url}/console/api/sqs/CreateQueue"
    other = page.context.new_page()
    other.route("http://evil.example/**", lambda route: route.fulfill(body="<title>evil</title>"))
    other.goto("http://evil.example/")
    outcome = other.evaluate(
        """async (target) => {
            const body = '{"QueueName": "stolen"}';
            const ask = (options) => fetch(target, {method: "POST", body, credentials: "include", ...options})
                .then(() => "sent", () => "blocked");
            return [await ask({mode: "no-cors"}), await ask({headers: {"X-Penstock-Console": "1"}})];
        }""",
        target,
    )
    assert outcome[1] == "blocked"
    frames = other.evaluate(
        """(address) => new Promise((resolve) => {
            const frame = document.createElement("iframe");
            frame.onload = () => { try { resolve(frame.contentDocument === null) } catch { resolve(true) } };
            frame.src = address;
            document.body.append(frame);
        })""",
        f"{secured.server.url}/console/",
    )
    assert frames
    names = [
        url.rpartition("/")[2]
        for url in secured.client("alice", region_name="us-east-1").list_queues().get("QueueUrls", [])
    ]
    assert "stolen" not in names
