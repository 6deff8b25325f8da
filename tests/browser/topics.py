"""The pages of topics in a real browser: subscriptions, publish, the filter tester, what waits, the outbox."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from playwright.sync_api import Page, expect

from support.process import ServerProcess
from support.secured import Secured

if TYPE_CHECKING:
    from collections.abc import Callable

    from browser.tabs import Tab

pytest_plugins = ["browser.tabs"]

FILTER = {"kind": ["order", {"prefix": "refund-"}]}
HOSTILE = "https://shop.example/?<img src=x onerror=alert(1)>"


def sqs(server: ServerProcess) -> Any:
    return boto3.client(
        "sqs", endpoint_url=server.url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )  # fmt: skip


def sns(server: ServerProcess) -> Any:
    return boto3.client(
        "sns", endpoint_url=server.url, region_name="us-east-1",
        aws_access_key_id="any", aws_secret_access_key="any",
    )  # fmt: skip


def create_topic(tab: Tab, name: str, *, fifo: bool = False) -> Page:
    """Create a topic; its page is shown."""
    page = tab.open("#/topics").page
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_label("FIFO").set_checked(fifo)
    page.get_by_role("button", name="Create", exact=True).click()
    expect(page.get_by_role("heading", name=f"{name}.fifo" if fifo else name, exact=True)).to_be_visible()
    return page


def subscribe(page: Page, protocol: str, endpoint: str, policy: object = None, dead: str = "") -> None:
    """Subscribe an endpoint from the page of a topic."""
    page.locator("main .tabs").get_by_role("link", name="Subscriptions").click()
    page.get_by_role("button", name="Subscribe").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Protocol").select_option(protocol)
    dialog.get_by_role("combobox", name="Endpoint").or_(dialog.get_by_role("textbox", name="Endpoint")).fill(
        endpoint
    )
    if policy is not None:
        dialog.get_by_role("textbox", name="Filter policy").fill(json.dumps(policy))
    if dead:
        dialog.get_by_role("combobox", name="Dead-letter queue").fill(dead)
    dialog.get_by_role("button", name="Subscribe").click()
    expect(dialog).to_have_count(0)


def row(page: Page, text: str) -> Any:
    return page.locator("tbody tr", has_text=text)


def test_a_server_without_topics_shows_how_to_begin(server: ServerProcess, tab: Tab) -> None:
    page = tab.open("#/topics").page
    expect(page.get_by_text("There are no topics yet")).to_be_visible()
    tab.picture("topics-first-steps")
    tab.accessible()
    exec(page.locator("pre").first.inner_text(), {})
    expect(page.get_by_role("link", name="orders")).to_be_visible(timeout=30_000)
    (message,) = sqs(server).receive_message(QueueUrl="invoices", WaitTimeSeconds=5)["Messages"]
    assert json.loads(message["Body"])["Message"] == "one espresso"


def test_topics_are_created_found_and_deleted(server: ServerProcess, tab: Tab) -> None:
    create_topic(tab, "orders", fifo=True)
    page = create_topic(tab, "refunds")
    expect(page.locator("figure")).to_have_count(4)
    tab.picture("topic")
    tab.accessible()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(row(page, "orders.fifo")).to_contain_text("FIFO")
    tab.picture("topics")
    tab.accessible()
    page.keyboard.press("/")
    page.keyboard.type("ref")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()  # the filter is in the address
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name="refunds").click()
    page.get_by_role("button", name="Delete").click()
    confirm = page.get_by_role("dialog").get_by_role("button", name="Delete")
    expect(confirm).to_be_disabled()
    page.get_by_label("Type refunds to confirm").fill("refunds")
    confirm.click()
    expect(page.locator("tbody tr")).to_have_count(1)
    tab.open("#/topic/refunds")
    expect(page.get_by_role("alert")).to_contain_text("Topic does not exist")
    tab.accessible()


def test_queues_subscribe_and_get_what_passes_their_filter(server: ServerProcess, tab: Tab) -> None:
    client = sqs(server)
    for name in ("invoices", "dead"):
        client.create_queue(QueueName=name)
    page = create_topic(tab, "orders")
    page.locator("main .tabs").get_by_role("link", name="Subscriptions").click()
    expect(page.get_by_text("No subscriptions yet")).to_be_visible()
    subscribe(page, "sqs", "invoices", FILTER, "dead")
    expect(row(page, "invoices")).to_contain_text("confirmed")
    expect(row(page, "invoices")).to_contain_text("refund-")
    expect(row(page, "invoices").get_by_role("link", name="dead")).to_be_visible()
    tab.picture("topic-subscriptions")
    tab.accessible()
    for kind in ("order", "other"):
        page.get_by_role("button", name="Publish message").click()
        page.get_by_role("textbox", name="Message", exact=True).fill(f"an {kind}")
        page.get_by_role("button", name="Add attribute").click()
        page.get_by_label("Name of attribute 1").fill("kind")
        page.get_by_label("Value of attribute 1").fill(kind)
        tab.accessible()
        page.get_by_role("button", name="Publish", exact=True).click()
        expect(page.get_by_role("dialog")).to_have_count(0)
    messages = client.receive_message(QueueUrl="invoices", MaxNumberOfMessages=10, WaitTimeSeconds=2)[
        "Messages"
    ]
    assert [json.loads(each["Body"])["Message"] for each in messages] == ["an order"]


def test_a_refused_subscription_says_why_and_keeps_what_was_entered(server: ServerProcess, tab: Tab) -> None:
    page = create_topic(tab, "orders")
    page.locator("main .tabs").get_by_role("link", name="Subscriptions").click()
    page.get_by_role("button", name="Subscribe").click()
    page.get_by_role("dialog").get_by_role("textbox", name="Filter policy").fill("{not json")
    page.get_by_role("dialog").get_by_role("combobox", name="Endpoint").fill("invoices")
    page.get_by_role("dialog").get_by_role("button", name="Subscribe").click()
    expect(page.locator(".notice.error")).to_contain_text("FilterPolicy")
    expect(page.get_by_role("dialog").get_by_role("textbox", name="Filter policy")).to_have_value("{not json")


def test_a_subscription_is_changed(server: ServerProcess, tab: Tab) -> None:
    for name in ("invoices", "dead"):
        sqs(server).create_queue(QueueName=name)
    page = create_topic(tab, "orders")
    subscribe(page, "sqs", "invoices")
    row(page, "invoices").get_by_role("link", name="invoices").click()
    expect(page.get_by_role("heading", name="invoices")).to_be_visible()
    nested = {"order": {"kind": ["large"]}}
    scope, policy = page.get_by_label("Filter by the"), page.get_by_role("textbox", name="Filter policy")
    scope.select_option("MessageBody")
    policy.fill("{not json")
    page.get_by_role("button", name="Save filter").click()
    expect(page.locator(".notice.error")).to_contain_text("FilterPolicy")
    scope.select_option("MessageBody")
    policy.fill(json.dumps(nested))
    page.get_by_role("button", name="Save filter").click()
    expect(page.get_by_role("button", name="Save filter")).to_be_disabled()
    page.get_by_label("Raw: deliver").check()
    page.get_by_role("textbox", name="Dead-letter queue").fill("dead")
    page.get_by_role("button", name="Save dead-letter queue").click()
    expect(page.get_by_role("button", name="Save dead-letter queue")).to_be_disabled()
    page.reload()
    expect(scope).to_have_value("MessageBody")
    assert json.loads(policy.input_value()) == nested
    expect(page.get_by_label("Raw: deliver")).to_be_checked()
    expect(page.get_by_role("textbox", name="Dead-letter queue")).to_have_value(
        "arn:aws:sqs:us-east-1:000000000000:dead"
    )
    tab.picture("subscription")
    tab.accessible()
    page.get_by_role("textbox", name="Dead-letter queue").fill("")
    page.get_by_role("button", name="Save dead-letter queue").click()
    policy.fill("")
    page.get_by_role("button", name="Save filter").click()
    expect(page.get_by_role("button", name="Save filter")).to_be_disabled()
    page.reload()
    expect(page.get_by_role("textbox", name="Dead-letter queue")).to_have_value("")
    expect(policy).to_have_value("")
    page.get_by_role("button", name="Unsubscribe").click()
    page.get_by_role("dialog").get_by_role("button", name="Unsubscribe").click()
    expect(page.get_by_text("No subscriptions yet")).to_be_visible()


def test_settings_policy_and_tags_of_a_topic_are_changed(server: ServerProcess, tab: Tab) -> None:
    page = create_topic(tab, "orders", fifo=True)
    page.locator("main .tabs").get_by_role("link", name="Settings").click()
    page.get_by_label("Display name, the sender of emails").fill("Shop")
    page.get_by_label("Recognize duplicates by their content").select_option("true")
    page.get_by_role("button", name="Save settings").click()
    page.get_by_label("Key of the tag").fill("team")
    page.get_by_label("Value of the tag").fill("shop")
    page.get_by_role("button", name="Set tag").click()
    expect(page.get_by_role("button", name="Remove tag team")).to_be_visible()
    tab.picture("topic-settings")
    tab.accessible()
    page.get_by_role("button", name="Remove tag team").click()
    expect(page.get_by_role("button", name="Remove tag team")).to_have_count(0)
    page.reload()
    expect(page.get_by_label("Display name, the sender of emails")).to_have_value("Shop")
    expect(page.get_by_label("Recognize duplicates by their content")).to_have_value("true")
    page.get_by_label("Policy", exact=True).fill("{not json")
    page.get_by_role("button", name="Save Policy", exact=True).click()
    expect(page.locator(".notice.error")).to_contain_text("Policy")


def test_a_message_of_a_fifo_topic_needs_a_group(server: ServerProcess, tab: Tab) -> None:
    page = create_topic(tab, "orders", fifo=True)
    page.get_by_role("button", name="Publish message").click()
    page.get_by_role("textbox", name="Message", exact=True).fill("one")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_role("textbox", name="Message group").fill("g")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator(".notice.error")).to_contain_text("MessageDeduplicationId")
    page.get_by_role("textbox", name="Deduplication id").fill("d")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_filter_tester_says_why(server: ServerProcess, tab: Tab) -> None:
    sqs(server).create_queue(QueueName="invoices")
    page = create_topic(tab, "orders")
    subscribe(page, "sqs", "invoices", FILTER)
    row(page, "invoices").get_by_role("link", name="invoices").click()
    page.get_by_role("link", name="Test it").click()
    expect(page.get_by_role("textbox", name="Filter policy")).to_have_value(json.dumps(FILTER, indent=2))
    page.get_by_role("button", name="Add attribute").click()
    page.get_by_label("Name of attribute 1").fill("kind")
    page.get_by_label("Value of attribute 1").fill("refund-7")
    result = page.get_by_role("region", name="Result")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(result).to_contain_text("The message passes")
    page.get_by_label("Value of attribute 1").fill("other")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(result).to_contain_text("The message is filtered out")
    expect(result.locator("tbody tr")).to_contain_text(["failed"])
    tab.picture("filter-tester")
    tab.accessible()
    page.get_by_role("textbox", name="Filter policy").fill('{"kind": []}')
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("Empty arrays are not allowed")
    expect(result).to_have_count(0)


def test_what_waits_and_what_cannot_leave_is_shown(server: ServerProcess, tab: Tab) -> None:
    page = tab.open("#/deliveries").page
    expect(page.get_by_text("Nothing waits")).to_be_visible()
    tab.accessible()
    tab.open("#/outbox")
    expect(page.get_by_text("The outbox is empty")).to_be_visible()
    tab.accessible()
    create_topic(tab, "orders")
    subscribe(page, "sms", "+4930123456")
    page.get_by_role("button", name="Publish message").click()
    page.get_by_role("textbox", name="Message", exact=True).fill("<b>ready</b>")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Outbox").click()
    expect(row(page, "+4930123456")).to_contain_text("<b>ready</b>")
    tab.picture("outbox")
    row(page, "+4930123456").get_by_role("button").click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text("<b>ready</b>")
    tab.accessible()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("The outbox is empty")).to_be_visible()


def test_why_a_consumer_gets_no_messages(server: ServerProcess, tab: Tab) -> None:
    """The list of topics leads to the failures of a subscription, and to the filter that holds messages back."""
    client = sns(server)
    sqs(server).create_queue(QueueName="invoices")
    topic = client.create_topic(Name="orders")["TopicArn"]
    for queue, attributes in (("gone", {}), ("invoices", {"FilterPolicy": json.dumps(FILTER)})):
        endpoint = f"arn:aws:sqs:us-east-1:000000000000:{queue}"
        client.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint, Attributes=attributes)
    client.subscribe(TopicArn=topic, Protocol="http", Endpoint="http://127.0.0.1:9/hook")  # nobody listens
    kind = {"kind": {"DataType": "String", "StringValue": "other"}}
    client.publish(TopicArn=topic, Message="an order", MessageAttributes=kind)

    page = tab.open("#/topics").page
    failing = page.get_by_role("region", name="Failing subscriptions")
    expect(failing).to_contain_text("2 subscriptions did not get their messages")
    expect(row(page, "orders")).to_contain_text("2 failing")
    expect(
        row(page, "orders").get_by_role("link", name="1", exact=True)
    ).to_be_visible()  # the confirmation waits
    tab.picture("topics-failing")
    tab.accessible()
    failing.get_by_role("link", name="gone").click()
    deliveries = page.get_by_role("region", name="Deliveries", exact=True)
    expect(deliveries).to_contain_text("1 message since the server was started")
    expect(deliveries).to_contain_text("the queue does not exist")
    expect(deliveries).to_contain_text("lost")
    tab.open("#/deliveries?topic=orders")
    expect(row(page, "http://127.0.0.1:9/hook")).to_contain_text("refused")

    tab.open("#/topic/orders/subscriptions")
    expect(row(page, "gone")).to_contain_text("lost")
    row(page, "invoices").get_by_role("link", name="invoices").click()
    expect(page.get_by_text("the filter holds back 1 of 1")).to_be_visible()
    expect(deliveries).to_contain_text("No failure")
    tab.picture("subscription-filtered")
    tab.accessible()
    row(page, "filtered out").get_by_role("link", name="Why").click()
    result = page.get_by_role("region", name="Result")
    expect(result).to_contain_text("The message is filtered out")
    expect(page.get_by_label("Value of attribute 1")).to_have_value("other")
    expect(page.get_by_label("One of the last messages of the topic")).to_contain_text("filtered out")
    page.get_by_role("link", name=topic).click()
    page.get_by_role("button", name="Publish message").click()
    page.get_by_role("textbox", name="Message", exact=True).fill("a test")
    page.get_by_role("button", name="Add attribute").click()
    page.get_by_label("Name of attribute 1").fill("kind")
    page.get_by_label("Value of attribute 1").fill("order")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(row(page, "a test")).to_contain_text("passes")


def test_a_replay_delivers_the_archive_again(server: ServerProcess, tab: Tab) -> None:
    client = sns(server)
    url = sqs(server).create_queue(QueueName="copy.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    attributes = {"FifoTopic": "true", "ContentBasedDeduplication": "true"}
    topic = client.create_topic(Name="ledger.fifo", Attributes=attributes)["TopicArn"]
    subscription = client.subscribe(
        TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:000000000000:copy.fifo",
        ReturnSubscriptionArn=True,
    )["SubscriptionArn"]  # fmt: skip
    page = tab.open(f"#/subscription/{subscription}").page
    replay = page.get_by_role("region", name="Replay")
    expect(replay).to_contain_text("The topic has no archive")
    archive = json.dumps({"MessageRetentionPeriod": "1"})
    client.set_topic_attributes(TopicArn=topic, AttributeName="ArchivePolicy", AttributeValue=archive)
    for text in ("one", "two"):
        client.publish(TopicArn=topic, Message=text, MessageGroupId="g")
    page.reload()
    for received in (4, 6):  # the second replay has the same beginning
        replay.get_by_role("button", name="Start replay").click()
        expect(replay).to_contain_text("completed", timeout=20_000)
        tab.picture("replay")
        tab.accessible()
        waiting = "ApproximateNumberOfMessages"
        found = sqs(server).get_queue_attributes(QueueUrl=url, AttributeNames=[waiting])["Attributes"]
        assert found[waiting] == str(received)
    replay.get_by_role("button", name="Remove replay").click()
    expect(replay).not_to_contain_text("completed")


def test_a_policy_names_one_topic_and_a_queue_denies_it(
    secured: Secured, new_tab: Callable[..., Tab]
) -> None:
    admin = {name: secured.client("alice", name, region_name="us-east-1") for name in ("sns", "sqs")}
    admin["sqs"].create_queue(QueueName="invoices")
    topic = admin["sns"].create_topic(Name="shop-orders")["TopicArn"]
    endpoint = "arn:aws:sqs:us-east-1:000000000000:invoices"
    admin["sns"].subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint)
    admin["sns"].publish(TopicArn=topic, Message="denied")
    tab = new_tab(secured.server)
    page = tab.sign_in(secured, "shop", "#/topics")
    expect(page.get_by_role("region", name="Not allowed")).to_contain_text("sns:ListTopics")
    tab.open("#/topic/shop-orders/subscriptions")
    page.get_by_role("region", name="Failing subscriptions").get_by_role("link", name="invoices").click()
    deliveries = page.get_by_role("region", name="Deliveries", exact=True)
    expect(deliveries).to_contain_text("the access policy of the queue does not allow it")
    tab.picture("subscription-denied")
    tab.accessible()
    statement = json.loads(deliveries.locator("pre").inner_text())
    document = json.dumps({"Version": "2012-10-17", "Statement": statement})
    queue = admin["sqs"].get_queue_url(QueueName="invoices")["QueueUrl"]
    admin["sqs"].set_queue_attributes(QueueUrl=queue, Attributes={"Policy": document})
    admin["sns"].publish(TopicArn=topic, Message="allowed")
    (message,) = admin["sqs"].receive_message(QueueUrl=queue, WaitTimeSeconds=10)["Messages"]
    assert json.loads(message["Body"])["Message"] == "allowed"


def test_endpoints_are_text(server: ServerProcess, tab: Tab) -> None:
    page = tab.page
    page.route("**/console/api/sns/ListSubscriptions", lambda route: route.fulfill(json={
        "ListSubscriptionsResponse": {"ListSubscriptionsResult": {"Subscriptions": [{
            "SubscriptionArn": "PendingConfirmation", "Protocol": "https", "Endpoint": HOSTILE,
            "TopicArn": "arn:aws:sns:us-east-1:000000000000:orders", "Owner": "000000000000",
        }]}}
    }))  # fmt: skip
    tab.open("#/subscriptions")
    expect(row(page, HOSTILE)).to_contain_text("pending")
    row(page, HOSTILE).get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("dialog")).to_contain_text(HOSTILE)
    tab.accessible()
    assert page.evaluate("document.querySelectorAll('main :is(script, iframe, img)').length") == 0


@pytest.mark.parametrize(
    "address", ["#/topics", "#/topic/orders/subscriptions", "#/filter-tester", "#/deliveries"]
)
def test_pages_of_topics_in_dark_colours_and_on_a_phone(
    server: ServerProcess, tab: Tab, new_tab: Callable[..., Tab], address: str
) -> None:
    sqs(server).create_queue(QueueName="invoices")
    subscribe(create_topic(tab, "orders"), "sqs", "invoices", FILTER)
    for name, context in (("dark", {"color_scheme": "dark"}), ("phone", {"is_mobile": True})):
        other = new_tab(server, **context)
        if name == "phone":
            other.page.set_viewport_size({"width": 390, "height": 800})
        other.open(address)
        expect(other.page.locator("main h1")).to_be_visible()
        expect(other.page.locator("main :is(tbody tr, form, .empty)").first).to_be_visible()
        other.picture(f"{name}-{address.removeprefix('#/').replace('/', '-')}")
        wide = other.page.evaluate(
            "document.documentElement.scrollWidth > document.documentElement.clientWidth"
        )
        assert not wide, "the page itself scrolls sideways"
        other.accessible()
