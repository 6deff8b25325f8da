"""What is refused, with the texts of AWS, and the limits."""

from __future__ import annotations

import pytest

from penstock.patterns import JsonTextError, PatternError, compile_pattern, parse_json
from support.rows import every_row

_PLACE = " at [Source: REDACTED (`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: "


def _refusal(policy: str, *, nested: bool = True) -> str:
    with pytest.raises(PatternError) as refused:
        compile_pattern(policy, nested=nested)
    return refused.value.reason


@every_row(
    ("policy", "text"),
    [
        ('{"k":"x"}', '"k" must be an object or an array'),
        ('{"k":{"l":5}}', '"l" must be an object or an array'),
        ('{"k":[]}', "Empty arrays are not allowed"),
        ('{"k":{}}', "Empty objects are not allowed"),
        ("{}", "Empty objects are not allowed"),
        ('["k"]', "Filter is not an object"),
        ('"k"', "Filter is not an object"),
        ('{"k":[["x"]]}', "Match value must be String, number, true, false, or null"),
        ('{"k":[{"regex":"x"}]}', "Unrecognized match type regex"),
        ('{"k":[{}]}', "Match expression name not found"),
        ('{"k":[{"prefix":"x","suffix":"y"}]}', "Only one key allowed in match expression"),
        ('{"k":[{"suffix":5}]}', "suffix match pattern must be a string"),
        ('{"k":[{"prefix":null}]}', "prefix match pattern must be a string"),
        ('{"k":[{"prefix":["x"]}]}', "prefix match pattern must be a string"),
        ('{"k":[{"prefix":{"wildcard":"x"}}]}', "Unsupported prefix pattern: wildcard"),
        ('{"k":[{"suffix":{"equals-ignore-case":5}}]}', "equals-ignore-case match pattern must be a string"),
        ('{"k":[{"equals-ignore-case":5}]}', "equals-ignore-case match pattern must be a string"),
        ('{"k":[{"wildcard":5}]}', "wildcard match pattern must be a string"),
        ('{"k":[{"cidr":5}]}', "prefix match pattern must be a string"),
        ('{"k":[{"exists":"true"}]}', "exists match pattern must be either true or false."),
        ('{"k":[{"exists":true,"prefix":"x"}]}', "Only one key allowed in match expression"),
        ('{"k":[{"anything-but":{"numeric":5}}]}', "Unsupported anything-but pattern: numeric"),
        ('{"k":[{"anything-but":[true]}]}', "Inside anything but list, start|null|boolean is not supported."),
        ('{"k":[{"anything-but":[null]}]}', "Inside anything but list, start|null|boolean is not supported."),
        (
            '{"k":[{"anything-but":["x",5]}]}',
            "Inside anything but list, either all values are number or string, mixed type is not supported",
        ),
        (
            '{"k":[{"anything-but":[]}]}',
            "Inside anything but list, either all values are number or string, mixed type is not supported",
        ),
        (
            '{"k":[{"anything-but":true}]}',
            "Value of anything-but must be an array or single string/number value.",
        ),
        ('{"k":[{"anything-but":{"prefix":""}}]}', "Null prefix/suffix not allowed"),
        ('{"k":[{"anything-but":{"prefix":[5]}}]}', "prefix/suffix match pattern must be a string"),
        ('{"k":[{"anything-but":{"wildcard":5}}]}', "wildcard match pattern must be a string"),
        ('{"k":[{"anything-but":{"wildcard":[]}}]}', "Empty arrays are not allowed"),
        ('{"k":[{"numeric":5}]}', "Value of numeric must be an array."),
        ('{"k":[{"numeric":[]}]}', "Invalid member in numeric match: ]"),
        ('{"k":[{"numeric":["<>",5]}]}', "Unrecognized numeric range operator: <>"),
        ('{"k":[{"numeric":["=","5"]}]}', "Value of equals must be numeric"),
        ('{"k":[{"numeric":["="]}]}', "Value of equals must be numeric"),
        ('{"k":[{"numeric":[">=","5"]}]}', "Value of >= must be numeric"),
        ('{"k":[{"numeric":["=",5,6]}]}', "Too many elements in numeric expression"),
        ('{"k":[{"numeric":["<",5,">",6]}]}', "Too many elements in numeric expression"),
        ('{"k":[{"numeric":[">",5],"prefix":"x"}]}', "Too many elements in numeric expression"),
        ('{"k":[{"numeric":[">",5,">",6]}]}', "Bad numeric range operator: >"),
        ('{"k":[{"numeric":[">",5,30]}]}', "Bad value in numeric range: 30"),
        ('{"k":[{"numeric":[">",5,"<",5]}]}', "Bottom must be less than top"),
        ('{"k":[{"numeric":[">",5,"<",6,7]}]}', "Too many terms in numeric range expression"),
        ('{"k":[{"numeric":[">",5,"<","6"]}]}', "Value of < must be numeric"),
        (
            '{"k":[{"numeric":["=",1000000000.1]}]}',
            "Value must be between -1000000000 and 1000000000, inclusive",
        ),
        ('{"k":[1e99999999999999999999]}', "Value must be between -1000000000 and 1000000000, inclusive"),
        ('{"$or":{"a":["x"]}}', "It must be an Array followed with $or."),
        ('{"$or":[{"a":["x"]}]}', "There must have at least 2 Objects in $or relationship."),
        ('{"$or":["x","y"]}', "Only JSON object is allowed in array of $or relationship."),
        ('{"$or":[{"a":["x"]},{}]}', "Empty objects are not allowed"),
        (
            '{"$or":[{"prefix":["x"]},{"a":["x"]}]}',
            "prefix is Ruler reserved fieldName which cannot be used inside $or.",
        ),
        ('{"k":[{"wildcard":"x**"}]}', "Consecutive wildcard characters at pos 2"),
        ('{"k":[{"wildcard":"ü**"}]}', "Consecutive wildcard characters at pos 3"),
        ('{"k":[{"wildcard":"\\\\x"}]}', "Invalid escape character at pos 1"),
        ('{"k":[{"wildcard":"x\\\\"}]}', "Invalid escape character at pos 2"),
        ('{"k":[{"anything-but":{"wildcard":"**"}}]}', "Consecutive wildcard characters at pos 1"),
    ],
)
def test_a_text_with_a_position(policy: str, text: str) -> None:
    reason, end, place = _refusal(policy).partition(f"\n{_PLACE}1, column: ")
    assert reason == text
    assert end and 1 < int(place.removesuffix("]")) <= len(policy) + 1


@every_row(
    ("policy", "text"),
    [
        ('{"k":[{"cidr":"10.0.0.1"}]}', "Malformed CIDR, one '/' required"),
        ('{"k":[{"cidr":"10.0.0.1/2/3"}]}', "Malformed CIDR, one '/' required"),
        ('{"k":[{"cidr":"10.0.0.1/"}]}', "Malformed CIDR, one '/' required"),
        ('{"k":[{"cidr":"10.0.0.1/x"}]}', "Malformed CIDR, mask bits must be an integer"),
        ('{"k":[{"cidr":"10.0.0.1/+-1"}]}', "Malformed CIDR, mask bits must be an integer"),
        ('{"k":[{"cidr":"10.0.0.1/-1"}]}', "Malformed CIDR, mask bits must not be negative"),
        ('{"k":[{"cidr":"10.0.0.256/24"}]}', "Nonstandard IP address: 10.0.0.256"),
        ('{"k":[{"cidr":"example.com/24"}]}', "Nonstandard IP address: example.com"),
        ('{"k":[{"cidr":"fe80::1%eth0/24"}]}', "Nonstandard IP address: fe80::1%eth0"),
        ('{"k":[{"cidr":"10.0.0.1/33"}]}', "IPv4 mask bits must be < 33"),
        ('{"k":[{"cidr":"::/129"}]}', "IPv6 mask bits must be < 129"),
        (
            '{"a":["x"],"b":["x"],"c":["x"],"d":["x"],"e":["x"],"f":["x"]}',
            "Filter policy can not have more than 5 keys",
        ),
        (
            '{"a":{"x":["x"],"y":["x"],"z":["x"]},"$or":[{"d":["x"]},{"e":["x"]},{"f":["x"]}]}',
            "Filter policy can not have more than 5 keys",
        ),
        ('{"k":[{"wildcard":"*a*b*c*"}]}', "Filter policy is too complex"),
    ],
)
def test_a_text_without_a_position(policy: str, text: str) -> None:
    assert _refusal(policy) == text


def test_a_position_is_one_of_the_compact_text() -> None:
    policy = '{ "k" :\n [ { "suffix" : 5 } ] }'
    before = '{"k":[{"suffix":5'
    assert _refusal(policy).endswith(f"{_PLACE}1, column: {len(before) + 1}]")


@every_row(
    ("policy", "text"),
    [
        ('{"k\\u0000\\n":"x"}', '"k\\u0000\\u000a" must be an object or an array'),
        ('{"k":[{"' + "x" * 1000 + '":1}]}', "Unrecognized match type " + "x" * 232 + "..."),
        ('{"k":[{"cidr":"\\u0000/1"}]}', "Nonstandard IP address: \\u0000"),
        ('{"k":[{"cidr":"' + "x" * 1000 + '/1"}]}', "Nonstandard IP address: " + "x" * 256 + "..."),
    ],
)
def test_an_error_can_be_shown_whatever_the_policy(policy: str, text: str) -> None:
    assert _refusal(policy).partition("\n")[0] == text


def test_nested_policies_of_attributes_have_a_text_of_their_own() -> None:
    with pytest.raises(PatternError) as refused:
        compile_pattern('{"a":{"b":["x"]}}', nested=False)
    assert refused.value.is_nested
    assert (
        refused.value.reason == "Filter policy scope MessageAttributes does not support nested filter policy"
    )
    compile_pattern('{"$or":[{"a":["x"]},{"b":["x"]}]}', nested=False)


def _terms(count: int) -> str:
    return "[" + ",".join(f'"v{number}"' for number in range(count)) + "]"


@every_row(
    ("policy", "fits"),
    [
        (  # 4*6 + 4*4*4 + 4*4*4 = 152
            f'{{"s":{_terms(4)},"$or":[{{"m":{_terms(6)}}},'
            f'{{"t":{_terms(4)},"$or":[{{"i":{_terms(4)}}},{{"p":{_terms(4)}}}]}}]}}',
            False,
        ),
        (  # 4*5 + 4*4*4 + 4*4*4 = 148
            f'{{"s":{_terms(4)},"$or":[{{"m":{_terms(5)}}},'
            f'{{"t":{_terms(4)},"$or":[{{"i":{_terms(4)}}},{{"p":{_terms(4)}}}]}}]}}',
            True,
        ),
        (f'{{"k":{_terms(151)}}}', False),
        (f'{{"k":{_terms(150)}}}', True),
        # 3*4 * 2*3 * 1*3 = 216
        (f'{{"a":{{"b":{{"c":{{"d":{_terms(3)}}},"e":{_terms(2)},"f":{_terms(1)}}}}}}}', False),
        # 2*4 * 1*3 * 2*3 = 144
        (f'{{"a":{{"b":{{"c":{{"d":{_terms(2)}}},"e":{_terms(1)},"f":{_terms(2)}}}}}}}', True),
        (
            '{"k":[{"wildcard":"*a*b*"},{"wildcard":"*a*b*"},{"wildcard":"*a*b*"}]}',
            True,
        ),  # (9 + 9 + 9) * 3 = 81
        (
            '{"k":[{"wildcard":"*a*b*"},{"wildcard":"*a*b*"},{"wildcard":"*a*b*"},{"wildcard":"a*"}]}',
            False,  # 28 * 4 = 112
        ),
        ('{"k":[{"anything-but":{"wildcard":["a*","b*","c*","d*","e*","f*","g*"]}}]}', True),  # 14 * 7 = 98
        (
            '{"k":[{"anything-but":{"wildcard":["a*","b*","c*","d*","e*","f*","g*h*"]}}]}',
            False,
        ),  # 19 * 7 = 133
        ('{"k":["' + "x" * (256 * 1024 - 10) + '"]}', True),
    ],
)
def test_a_complexity(policy: str, fits: bool) -> None:
    if fits:
        compile_pattern(policy, nested=True)
    else:
        assert _refusal(policy) == "Filter policy is too complex"


def test_a_policy_has_a_size() -> None:
    too_long = '{"k":["' + "x" * (256 * 1024 - 9) + '"]}'
    assert _refusal(too_long) == "Filter policy can not be larger than 262144 bytes"
    assert "larger" in _refusal('{"k":["' + "ü" * (128 * 1024) + '"]}')


@every_row(
    ("policy", "compact"),
    [
        ('{ "b" : [ 1.50 , 1e2, true ],\n"a":[ "x y" , null ] }', '{"b":[1.50,1e2,true],"a":["x y",null]}'),
        ('{"a":["\\u0041\\/\\"\\n"]}', '{"a":["A/\\"\\n"]}'),
        ('{"a":["x"],"b":["y"],"a":["z"]}', '{"a":["z"],"b":["y"]}'),
        ('{"a":[{"anything-but":[1,-0.5]}]}', '{"a":[{"anything-but":[1,-0.5]}]}'),
    ],
)
def test_the_compact_text(policy: str, compact: str) -> None:
    pattern = compile_pattern(policy, nested=True)
    assert pattern.compact == compact
    assert compile_pattern(compact, nested=True).compact == compact


@every_row(
    ("text", "reason", "line", "column"),
    [
        (
            "{invalid",
            "Unexpected character ('i' (code 105)): was expecting double-quote to start field name",
            1,
            2,
        ),
        (
            '{"a":1,}',
            "Unexpected character ('}' (code 125)): was expecting double-quote to start field name",
            1,
            8,
        ),
        (
            '{"a" 1}',
            "Unexpected character ('1' (code 49)): was expecting a colon to separate field name and value",
            1,
            6,
        ),
        (
            '{"a":1 2}',
            "Unexpected character ('2' (code 50)): was expecting comma to separate Object entries",
            1,
            8,
        ),
        (
            "[1\n 2]",
            "Unexpected character ('2' (code 50)): was expecting comma to separate Array entries",
            2,
            2,
        ),
        (
            "[,]",
            "Unexpected character (',' (code 44)): expected a valid value (JSON String, Number, Array, Object or "
            "token 'null', 'true' or 'false')",
            1,
            2,
        ),
        (
            "nope",
            "Unrecognized token 'nope': was expecting (JSON String, Number, Array, Object or token 'null', 'true' or "
            "'false')",
            1,
            5,
        ),
        ("", "No content to map due to end-of-input", 1, 1),
        (
            '{"a":1',
            "Unexpected end-of-input: expected close marker for Object (start marker at [Source: REDACTED "
            "(`StreamReadFeature.INCLUDE_SOURCE_IN_LOCATION` disabled); line: 1, column: 1])",
            1,
            7,
        ),
        ('"abc', "Unexpected end-of-input: was expecting closing quote for a string value", 1, 5),
        ('{"abc', "Unexpected end-of-input in field name", 1, 6),
        (
            '"a\x01"',
            "Illegal unquoted character ((CTRL-CHAR, code 1)): has to be escaped using backslash to be included in "
            "string value",
            1,
            3,
        ),
        ('"\\x"', "Unrecognized character escape 'x' (code 120)", 1, 3),
        ('"\\ud800"', "Invalid surrogate in a string value", 1, 9),
        ("01", "Invalid numeric value: Leading zeroes not allowed", 1, 2),
        ("{} x", "Unexpected character ('x' (code 120)): expected end of input", 1, 4),
        (
            "[" * 2000,
            "Document nesting depth (1001) exceeds the maximum allowed (1000, from "
            "`StreamReadConstraints.getMaxNestingDepth()`)",
            1,
            1001,
        ),
    ],
)
def test_text_that_is_no_json(text: str, reason: str, line: int, column: int) -> None:
    with pytest.raises(JsonTextError) as refused:
        parse_json(text)
    assert refused.value.reason == f"{reason}\n{_PLACE}{line}, column: {column}]"
    with pytest.raises(JsonTextError):
        compile_pattern(text, nested=True)
