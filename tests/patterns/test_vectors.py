"""Policies with messages that Amazon SNS delivers (y) or filters out (n), as it was recorded or is documented."""

from __future__ import annotations

from penstock.patterns import PatternIndex, compile_pattern, judge, matches
from penstock.patterns.subject import FilterOutcome
from support.rows import every_row

from .messages import subject

_RECORDS = (
    '{"Records":{"s3":{"object":{"key":[{"prefix":"auto-"}]}},"eventName":[{"prefix":"ObjectCreated:"}]}}'
)
_OR = (
    '{"$or":[{"metricName":["CPU","Lat"]},{"namespace":["EC2","ES"]}],'
    '"detail":{"scope":["Service"],"$or":[{"source":["cw"]},{"type":["T"]}]}}'
)
_CIDR = '{"d":{"$or":[{"ip":[{"cidr":"10.0.0.0/24"}]},{"ip6":[{"cidr":"2001:db8:1234:1a00::/64"}]}]}}'
_KEY = '{"object":{"key":[{"prefix":"auto-"},"hard"],"nk":[{"exists":false}]},"test":[{"exists":false}]}'


def _record(event: str, key: str) -> str:
    return f'{{"eventName":"Object{event}:Put","s3":{{"object":{{"key":"{key}"}}}}}}'


def _event(first: str, **detail: str) -> str:
    name, _, value = first.partition("=")
    members = ",".join(f'"{each}":"{text}"' for each, text in detail.items())
    return f'{{"{name}":"{value}","detail":{{{members}}}}}'


VECTORS: list[tuple[int, str, str, dict[str, str]]] = [
    (
        1,
        "A",
        '{"a":[{"numeric":[">",0,"<=",100]}]}',
        {"a=N:99": "y", "a=N:111": "n", "a=N:100": "y", "a=N:0": "n"},
    ),
    (2, "A", '{"a":[null,{"anything-but":"x"}]}', {"": "n"}),
    (
        3,
        "A",
        '{"store":[{"exists":true}]}',
        {"store=N:99; def=N:99": "y", "a=N:111": "n", "store=SA:[]": "n"},
    ),
    (4, "A", '{"store":[{"exists":false}]}', {"def=N:99": "y", "store=N:99; def=N:99": "n", "": "n"}),
    (
        5,
        "A",
        '{"store":["value1"]}',
        {"store=S:value1": "y", 'store=SA:["value1","value2"]': "y", 'store=SA:["value2","value3"]': "n"},
    ),
    (
        6,
        "A",
        '{"v":["blue",{"numeric":[">",0,"<=",10]}]}',
        {
            "v=S:blue": "y",
            'v=SA:["red","blue"]': "y",
            "v=N:5": "y",
            "v=S:5": "n",
            "v=N:0": "n",
            "v=N:11": "n",
        },
    ),
    (7, "A", '{"v":[{"numeric":["=",0.5]}]}', {"v=N:0.5": "y", "v=N:.5": "n"}),
    (8, "A", '{"v":["allow"]}', {"v=S:allow; unused=SA:not-json": "n", "v=S:allow; unused=S:not-json": "y"}),
    (
        9,
        "A",
        '{"sport":[{"anything-but":["rugby","tennis"]}]}',
        {
            "sport=S:baseball": "y",
            "sport=S:rugby": "n",
            'sport=SA:["rugby","baseball"]': "y",
            'sport=SA:["rugby"]': "n",
        },
    ),
    (
        10,
        "A",
        '{"price":[{"numeric":["=",301.5]}]}',
        {"price=N:301.500": "y", "price=N:3.015e2": "y", "price=S:301.5": "n"},
    ),
    (
        11,
        "A",
        '{"price":[{"anything-but":[100,500]}]}',
        {"price=N:101": "y", "price=N:100": "n", "price=SA:[100,50]": "y", "price=SA:[100]": "n"},
    ),
    (
        12,
        "A",
        '{"e":[{"anything-but":{"prefix":"order-"}}]}',
        {"e=S:data-entry": "y", "e=S:order-number": "n"},
    ),
    (
        13,
        "B",
        _KEY,
        {
            '{"object":{"key":"auto-x"}}': "y",
            '{"object":{"key":"hard"}}': "y",
            '{"object":{"key":"x-auto"}}': "n",
            '{"object":{"key":"auto-x"},"test":"t"}': "n",
            '{"object":{"key":"auto-x","nk":"t"}}': "n",
            '{"test":"auto-x"}': "n",
            '"text"': "n",
        },
    ),
    (
        14,
        "B",
        '{"object.nested.test":["v"]}',
        {
            '{"object":{"nested":{"test":"v"}}}': "y",
            '{"object.nested.test":"v"}': "y",
            '{"object.nested":{"test":"v"}}': "y",
            '{"object":{"nested.test":"v"}}': "y",
        },
    ),
    (
        15,
        "B",
        '{"headers":{"route-to":["q1"]}}',
        {'{"headers":{"route-to":["q1","q2"]}}': "y", '{"headers":{"route-to":["q3"]}}': "n"},
    ),
    (
        16,
        "B",
        _RECORDS,
        {
            f'{{"Records":[{_record("Created", "auto-x")}]}}': "y",
            f'{{"Records":[{_record("Removed", "auto-x")}]}}': "n",
            f'{{"Records":[{_record("Created", "home-x")}]}}': "n",
            '{"Records":[{"eventName":"ObjectCreated:Put","s3":{"object":[[{"key":"auto-x"}]]}},'
            f"{_record('Removed', 'home-x')}]}}": "y",
        },
    ),
    (
        17,
        "B",
        _RECORDS,
        {f'{{"Records":[{_record("Created", "home-x")},{_record("Removed", "auto-x")}]}}': "n"},
    ),
    (
        18,
        "B",
        '{"detail":{"eventVersion":[""]}}',
        {'{"resources":[],"detail":{"eventVersion":"","x":null}}': "y"},
    ),
    (
        19,
        "B",
        _OR,
        {
            _event("metricName=CPU", scope="Service", source="cw"): "y",
            _event("namespace=ES", scope="Service", source="cw"): "y",
            _event("metricName=CPU", scope="Service", type="T"): "y",
            _event("metricName=CPU", scope="Service"): "n",
            _event("metricName=EC2", scope="Service", type="T"): "n",
            _event("metricName=CPU", scope="cw", type="T"): "n",
        },
    ),
    (
        20,
        "B",
        _CIDR,
        {
            '{"d":{"ip":"10.0.0.255"}}': "y",
            '{"d":{"ip":"10.0.0.256"}}': "n",
            '{"d":{"ip6":"2001:0db8:1234:1a00:0:0:0:0"}}': "y",
            '{"d":{"ip6":"2001:0db8:123f:1a01:0:0:0:0"}}': "n",
        },
    ),
    (
        21,
        "B",
        '{"f":[{"exists":true}]}',
        {
            '{"f":"x"}': "y",
            '{"f":""}': "y",
            '{"f":null}': "y",
            '{"f":[]}': "n",
            '{"f":{}}': "n",
            '{"g":1}': "n",
        },
    ),
    (22, "B", '{"f":[{"exists":false}]}', {'{"g":1}': "y", '{"f":[]}': "y", "{}": "n"}),
    (
        23,
        "B",
        '{"v":[{"wildcard":"*.png"}]}',
        {'{"v":"x.png"}': "y", '{"v":".png"}': "y", '{"v":"x.jpg"}': "n"},
    ),
    (23, "B", '{"v":[{"wildcard":"a\\\\*b"}]}', {'{"v":"a*b"}': "y", '{"v":"axb"}': "n"}),
    (24, "B", '{"v":[{"equals-ignore-case":"Tennis"}]}', {'{"v":"TENNIS"}': "y", '{"v":"tennis "}': "n"}),
    (25, "B", '{"v":[{"suffix":"ball"}]}', {'{"v":"baseball"}': "y", '{"v":"ballet"}': "n"}),
    (25, "B", '{"v":[true]}', {'{"v":true}': "y", '{"v":"true"}': "n"}),
    (25, "B", '{"v":[5]}', {'{"v":5}': "y", '{"v":5.0}': "y", '{"v":"5"}': "n"}),
]
"""Each with its number in the specification."""

MORE: list[tuple[str, str, str, dict[str, str]]] = [
    ("binary", "A", '{"a":[{"exists":true}]}', {"a=Binary": "y", "b=Binary": "n"}),
    (
        "binary-value",
        "A",
        '{"a":[{"anything-but":"x"},{"prefix":""}]}',
        {"a=Binary": "n", "a=String.x:y": "n"},
    ),
    ("dots-in-names", "A", '{"a.b":["x"]}', {"a.b=S:x": "y", "a=S:x": "n"}),
    ("escaped", "A", r'{"a":["say \\\"x\\\""]}', {'a=S:say "x"': "y", "a=S:say x": "n"}),
    ("not-escaped", "B", r'{"a":["say \"x\""]}', {r'{"a":"say \"x\""}': "y"}),
    ("bool-is-no-number", "B", '{"a":[1]}', {'{"a":1}': "y", '{"a":true}': "n"}),
    ("number-is-no-bool", "B", '{"a":[false]}', {'{"a":false}': "y", '{"a":0}': "n", '{"a":null}': "n"}),
    ("null", "B", '{"a":[null]}', {'{"a":null}': "y", '{"b":1}': "n", '{"a":"null"}': "n"}),
    (
        "prefix-ignoring-case",
        "B",
        '{"a":[{"prefix":{"equals-ignore-case":"Eu-"}}]}',
        {'{"a":"EU-west"}': "y", '{"a":"us-eu-"}': "n"},
    ),
    (
        "suffix-ignoring-case",
        "B",
        '{"a":[{"suffix":{"equals-ignore-case":".PNG"}}]}',
        {'{"a":"x.png"}': "y", '{"a":"png"}': "n"},
    ),
    (
        "anything-but-suffix",
        "B",
        '{"a":[{"anything-but":{"suffix":[".png",".jpg"]}}]}',
        {'{"a":"x.gif"}': "y", '{"a":"x.jpg"}': "n", '{"a":5}': "y", '{"b":5}': "n"},
    ),
    (
        "anything-but-ignoring-case",
        "B",
        '{"a":[{"anything-but":{"equals-ignore-case":["x","Y"]}}]}',
        {'{"a":"X"}': "n", '{"a":"y"}': "n", '{"a":"z"}': "y"},
    ),
    (
        "anything-but-wildcard",
        "B",
        '{"a":[{"anything-but":{"wildcard":"a*b"}}]}',
        {'{"a":"ab"}': "n", '{"a":"axxb"}': "n", '{"a":"abc"}': "y"},
    ),
    (
        "wildcards",
        "B",
        '{"a":[{"wildcard":"a*bc*c"}]}',
        {'{"a":"abcc"}': "y", '{"a":"axbcbcyc"}': "y", '{"a":"abc"}': "n", '{"a":"bcc"}': "n"},
    ),
    ("ends-overlap", "B", '{"a":[{"wildcard":"ab*ba"}]}', {'{"a":"aba"}': "n", '{"a":"abba"}': "y"}),
    ("backslash", "B", r'{"a":[{"wildcard":"a\\\\*"}]}', {r'{"a":"a\\b"}': "y", '{"a":"ab"}': "n"}),
    (
        "network-of-an-address",
        "B",
        '{"a":[{"cidr":"10.0.0.9/24"}]}',
        {'{"a":"10.0.0.1"}': "y", '{"a":10}': "n"},
    ),
    (
        "no-float-error",
        "B",
        '{"a":[{"numeric":["=",0.3]}]}',
        {'{"a":0.30000}': "y", '{"a":0.30000000000000004}': "n"},
    ),
    (
        "limits-of-numbers",
        "B",
        '{"a":[{"numeric":["<",1e9]}]}',
        {'{"a":999999999.99999}': "y", '{"a":1e9}': "n"},
    ),
    ("huge-numbers", "B", '{"a":[{"numeric":[">",0]}]}', {'{"a":1e999999}': "y", '{"a":-1e999999}': "n"}),
    (
        "absent-in-the-same-element",
        "B",
        '{"r":{"a":["x"],"b":[{"exists":false}]}}',
        {
            '{"r":[{"a":"x"},{"b":1}]}': "y",
            '{"r":[{"a":"x","b":1},{"a":"y"}]}': "n",
            '{"r":[{"a":"x","b":1},{"a":"x"}]}': "y",
        },
    ),
    (
        "absent-anywhere",
        "B",
        '{"r":{"b":[{"exists":false}]}}',
        {'{"r":[{"a":1},{"b":1}]}': "n", '{"r":[{"a":1}]}': "y"},
    ),
    (
        "absent-in-arrays-without-a-choice",
        "B",
        '{"r":{"s":{"b":[{"exists":false}]}},"q":{"a":["x"]}}',
        {'{"r":[{"s":[{"b":1}]}],"q":[{"a":"x"}]}': "n", '{"r":[{"s":[{"c":1}]}],"q":[{"a":"x"}]}': "y"},
    ),
    (
        "an-element-is-chosen-for-a-value",
        "B",
        '{"r":{"b":[{"exists":false}],"c":["z"]},"q":{"a":["x"]}}',
        {
            '{"r":[{"b":1},{"c":"y"}],"r.c":"z","q":[{"a":"x"}]}': "n",
            '{"r":[{"b":1},{"c":"z"}],"r.c":"z","q":[{"a":"x"}]}': "y",
        },
    ),
    (
        "arrays-in-different-places",
        "B",
        '{"r":{"a":["x"]},"s":{"b":["y"]}}',
        {
            '{"r":[{"a":"z"},{"a":"x"}],"s":[{"b":"y"},{"b":"z"}]}': "y",
            '{"r":[{"a":"x"}],"s":[{"b":"z"}]}': "n",
        },
    ),
    (
        "elements-of-inner-arrays",
        "B",
        '{"r":{"s":{"a":["x"],"b":["y"]},"c":["z"]}}',
        {
            '{"r":[{"s":[{"a":"x"},{"a":"x","b":"y"}],"c":"z"}]}': "y",
            '{"r":[{"s":[{"a":"x"},{"b":"y"}],"c":"z"}]}': "n",
            '{"r":[{"s":[{"a":"x","b":"y"}]},{"c":"z"}]}': "n",
        },
    ),
    (
        "and-of-one-key",
        "B",
        '{"a":{"b":["x"]},"a.b":["y"]}',
        {'{"a":{"b":["x","y"]}}': "y", '{"a":{"b":"y"}}': "n"},
    ),
]
"""What follows from the rules. Each with a name."""


def _check(scope: str, policy: str, messages: dict[str, str]) -> None:
    pattern = compile_pattern(policy, nested=scope == "B")
    index: PatternIndex[str] = PatternIndex()
    index.add("it", pattern)
    found = {text: matches(pattern, subject(scope, text)) for text in messages}
    assert found == {text: wanted == "y" for text, wanted in messages.items()}
    indexed = {text: index.matching(subject(scope, text)) == ["it"] for text in messages}
    assert indexed == found


@every_row(("number", "scope", "policy", "messages"), VECTORS)
def test_a_vector(number: int, scope: str, policy: str, messages: dict[str, str]) -> None:
    _check(scope, policy, messages)


def test_every_vector_is_tried() -> None:
    assert {number for number, *_ in VECTORS} == set(range(1, 26))


@every_row(("name", "scope", "policy", "messages"), MORE)
def test_a_rule(name: str, scope: str, policy: str, messages: dict[str, str]) -> None:
    _check(scope, policy, messages)


@every_row(
    ("scope", "text", "outcome"),
    [
        ("A", "a=S:x", FilterOutcome.MATCHED),
        ("A", "a=S:y", FilterOutcome.MISMATCH),
        ("A", "", FilterOutcome.NO_ATTRIBUTES),
        ("A", "a=S:x; b=N:.5", FilterOutcome.INVALID_ATTRIBUTES),
        ("A", "a=S:x; b=N:NaN", FilterOutcome.INVALID_ATTRIBUTES),
        ("A", 'a=S:x; b=N:"5"', FilterOutcome.INVALID_ATTRIBUTES),
        ("A", 'a=S:x; b=SA:{"a":1}', FilterOutcome.INVALID_ATTRIBUTES),
        ("A", "a=S:x; b=SA:[[1]]", FilterOutcome.INVALID_ATTRIBUTES),
        ("B", '{"a":"x"}', FilterOutcome.MATCHED),
        ("B", '{"a":"y"}', FilterOutcome.MISMATCH),
        ("B", "{}", FilterOutcome.MISMATCH),
        ("B", '["a"]', FilterOutcome.INVALID_BODY),
        ("B", "text", FilterOutcome.INVALID_BODY),
        ("B", '{"a":"x"', FilterOutcome.INVALID_BODY),
        ("B", '{"a":"x","b":1e99999999999999999999}', FilterOutcome.INVALID_BODY),
    ],
)
def test_the_reason_is_told(scope: str, text: str, outcome: FilterOutcome) -> None:
    message = subject(scope, text)
    assert judge(compile_pattern('{"a":["x"]}', nested=scope == "B"), message) is outcome
    if outcome is not FilterOutcome.MATCHED:
        assert message.outcome_of_mismatch is outcome
