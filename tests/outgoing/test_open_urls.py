"""URLs that accounts choose: which addresses may be called, and what a name may lead to."""

from __future__ import annotations

import asyncio

import pytest

from outgoing.test_client import Answering
from penstock.outgoing import (
    ALL_HOSTS,
    CredentialUrl,
    OpenUrls,
    OutgoingFailed,
    OutgoingHttp,
    OutgoingRefused,
)
from penstock.outgoing.addresses import is_public
from penstock.promise import outcome, start
from support.harness import run

PUBLIC = [
    "93.184.216.34",
    "1.1.1.1",
    "2606:4700::1111",
    "2002:5db8:d822::1",
    "64:ff9b::101:101",
    "::ffff:1.1.1.1",
]
PRIVATE = [
    "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "127.0.0.1", "127.8.8.8", "100.64.0.1", "198.18.0.1",
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "192.0.0.8", "::1", "fc00::1", "fd12:3456::1", "fec0::1",
    "2001:db8::1", "3fff::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:7f00:1::1",
    "2002:c0a8:101::1", "::127.0.0.1", "64:ff9b:1::a00:1", "::ffff:0:10.0.0.1",
]  # fmt: skip
NEVER = [
    "169.254.169.254", "169.254.0.1", "0.0.0.0", "0.1.2.3", "255.255.255.255", "240.0.0.1", "224.0.0.1", "::",
    "fe80::1", "ff02::1", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::ffff:0.0.0.0", "fe80::1%1", "100::1",
    "5f00::1",
]  # fmt: skip


def host(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def may_call(urls: OpenUrls, address: str, name: str = "hooks.example.com") -> bool:
    """Whether it may be called where a name leads to it, and under the address itself."""
    by_name = urls.may_call(name, address)
    assert urls.may_call(address, address) == by_name
    if "%" not in address:
        assert (urls.find(f"http://{host(address)}/") is not None) == by_name
    return by_name


@pytest.mark.parametrize("address", PUBLIC)
def test_addresses_of_the_internet_may_be_called(address: str) -> None:
    assert is_public(address)
    assert may_call(OpenUrls(), address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_may_be_called_where_an_operator_allows_it(address: str) -> None:
    assert not may_call(OpenUrls(), address)
    assert may_call(OpenUrls([ALL_HOSTS]), address)
    assert not may_call(OpenUrls(["10.200.0.0/16", "other.example.com"]), address)


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_called(address: str) -> None:
    assert not is_public(address)
    for allowed in ((), (ALL_HOSTS,), ("0.0.0.0/0", "::/0"), ("hooks.example.com",)):
        assert not may_call(OpenUrls(allowed), address)


def test_an_operator_lists_hosts_and_networks() -> None:
    urls = OpenUrls(["10.0.0.0/8", "Hooks.internal.", "192.168.1.7", "fd12::/16"])
    rows = {
        ("any.example.com", "10.9.9.9"): True,
        ("any.example.com", "::ffff:10.9.9.9"): True,
        ("any.example.com", "192.168.1.7"): True,
        ("any.example.com", "192.168.1.8"): False,
        ("any.example.com", "fd12::1"): True,
        ("any.example.com", "127.0.0.1"): False,
        ("hooks.internal", "127.0.0.1"): True,
        ("hooks.internal", "169.254.169.254"): False,
        ("more.hooks.internal", "127.0.0.1"): False,
    }
    assert {row: urls.may_call(*row) for row in rows} == rows


@pytest.mark.parametrize(
    ("text", "target", "authorization"),
    [
        ("https://hooks.example.com", "/", None),
        ("https://hooks.example.com/a?b=c#d", "/a?b=c", None),
        ("https://user:pass@hooks.example.com/a", "/a", "Basic dXNlcjpwYXNz"),
        ("https://us%40er:p%3As@hooks.example.com?b", "/?b", "Basic dXNAZXI6cDpz"),
        ("https://user@hooks.example.com/a@b", "/a@b", "Basic dXNlcjo="),
        ("https://hooks.example.com/a@b", "/a@b", None),
    ],
)
def test_credentials_and_fragments_are_taken_out(text: str, target: str, authorization: str | None) -> None:
    found = OpenUrls().find(text)
    assert found is not None
    assert (found.url.host, found.url.target, found.authorization) == (
        "hooks.example.com",
        target,
        authorization,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://a.example.com/",
        "https://",
        "https://a b/",
        "https://u:p@/",
        "//a/",
        "https://a\\@b/",
        "http://a:0/",
    ],
)
def test_other_texts_are_no_urls(text: str) -> None:
    assert CredentialUrl.parse(text) is None


class Names:
    """A resolver whose answers change, and which counts the questions."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    async def __call__(self, name: str, port: int) -> list[str]:
        self.asked += 1
        answer = self.answers[min(self.asked, len(self.answers)) - 1]
        if not answer:
            raise OSError("no such name")
        return answer


async def call(http: OutgoingHttp, text: str, urls: OpenUrls) -> int:
    found = urls.find(text)
    assert found is not None
    return (await outcome(start(http.request("0", "POST", found.url, {}, rule=urls)))).status


def test_a_name_that_leads_to_a_private_address_is_not_called() -> None:
    async def scene() -> None:
        async with Answering() as server:
            url = f"http://hooks.example.com:{server.port}/"
            for addresses in (["127.0.0.1"], ["::ffff:127.0.0.1"], ["169.254.169.254"]):
                with pytest.raises(OutgoingRefused, match="must not be called"):
                    await call(OutgoingHttp(resolve=Names(addresses)), url, OpenUrls())
            assert server.requests == []
            allowed = OpenUrls(["hooks.example.com"])
            assert await call(OutgoingHttp(resolve=Names(["127.0.0.1"])), url, allowed) == 200

    run(scene)


def test_forms_of_an_address_that_only_a_lookup_understands_are_not_called() -> None:
    async def scene() -> None:
        async with Answering() as server:
            for form in ("127.1", "2130706433", "0x7f.0.0.1", "017700000001", "localhost", "localhost."):
                with pytest.raises(OutgoingFailed):
                    await call(OutgoingHttp(), f"http://{form}:{server.port}/", OpenUrls())
            assert server.requests == []

    run(scene)


def test_a_name_is_looked_up_once_for_a_request_and_each_request_looks_again() -> None:
    """Whoever owns the name can change its address after it was checked."""

    async def scene() -> None:
        async with Answering() as server:
            url = f"http://hooks.example.com:{server.port}/"
            names = Names(["127.0.0.1"], ["127.0.0.1"], ["10.0.0.1"])
            http, urls = OutgoingHttp(resolve=names), OpenUrls(["127.0.0.0/8"])
            assert await call(http, url, urls) == 200
            assert names.asked == 1
            assert await call(http, url, urls) == 200
            with pytest.raises(OutgoingRefused):
                await call(http, url, urls)

    run(scene)


def test_of_several_addresses_the_private_ones_are_left_out() -> None:
    async def scene() -> None:
        async with Answering() as server:
            url = f"http://hooks.example.com:{server.port}/"
            http = OutgoingHttp(resolve=Names(["10.0.0.1", "169.254.169.254", "127.0.0.1"]))
            assert await call(http, url, OpenUrls(["127.0.0.0/8"])) == 200

    run(scene)


def test_whether_a_name_is_found() -> None:
    async def scene() -> None:
        found = CredentialUrl.parse("https://hooks.example.com/")
        assert found is not None

        async def finds(addresses: list[str]) -> bool:
            http = OutgoingHttp(resolve=Names(addresses))
            return await outcome(start(http.finds("0", found.url, OpenUrls())))

        assert await finds(["1.1.1.1"])
        assert await finds(["10.0.0.1", "1.1.1.1"])
        assert not await finds([])
        with pytest.raises(OutgoingRefused):
            await finds(["10.0.0.1"])

    run(scene)


def test_a_name_whose_lookup_takes_too_long_counts_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.outgoing.client._LOOKUP_S", 0.05)

    async def never(name: str, port: int) -> list[str]:
        await asyncio.sleep(60)
        return []

    async def scene() -> None:
        found = CredentialUrl.parse("https://hooks.example.com/")
        assert found is not None
        http = OutgoingHttp(resolve=never)
        asked = [start(http.finds("0", found.url, OpenUrls())) for _ in range(20)]
        for each in asked:
            assert not await outcome(each)

    run(scene)
