"""The terms of a rule, read from the tokens of a pattern: values and match expressions such as {"prefix": "a"}."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, DecimalException
from typing import NoReturn

from penstock.patterns import terms
from penstock.patterns.compact import Token, TokenReader
from penstock.patterns.errors import PatternError
from penstock.patterns.limits import PatternLimits
from penstock.patterns.terms import Number, NumberRange, Term
from penstock.patterns.values import CONSTANTS, Value, number_key

TOO_COMPLEX = "Filter policy is too complex"
_ONE_KEY = "Only one key allowed in match expression"
_TOO_MANY = "Too many elements in numeric expression"
_FINE_NUMBERS_MAX = (
    150  # in one anything-but, with more than five decimals: their hashes can be made to collide
)
_CONSTANTS = {"true": CONSTANTS[True], "false": CONSTANTS[False], "null": CONSTANTS[None]}
_ANYTHING_BUT_KINDS = ("prefix", "suffix", "equals-ignore-case", "wildcard")
_OPERATORS = {"=": "equals", "<": "<", "<=": "<=", ">": ">", ">=": ">="}  # with their names in texts


class ExpressionReader:
    def __init__(self, tokens: TokenReader, limits: PatternLimits) -> None:
        self.wildcard_points = 0
        self._tokens = tokens
        self._limits = limits
        self._field_points: list[int] = []  # of each wildcard of the rule at hand
        self._readers: dict[str, Callable[[], Term]] = {
            "prefix": lambda: self._affix("prefix", terms.prefix, terms.folded_prefix),
            "suffix": lambda: self._affix("suffix", terms.suffix, terms.folded_suffix),
            "equals-ignore-case": lambda: self._textual("equals-ignore-case", terms.folded),
            "wildcard": lambda: self._textual("wildcard", self._wildcard),
            "cidr": lambda: self._textual("prefix", terms.cidr),  # SNS: the text says prefix
            "exists": self._exists,
            "numeric": self._numeric,
            "anything-but": self._anything_but,
        }

    def rule(self) -> tuple[Term, ...]:
        """Read the terms of a rule, whose array is open."""
        found: list[Term] = []
        while (token := self._tokens.next()).kind != "]":
            if len(found) == self._limits.combinations_max:
                raise PatternError(TOO_COMPLEX)
            found.append(self._term(token)._replace(text=self._tokens.text_since(token)))
        if not found:
            self._tokens.refuse("Empty arrays are not allowed")
        # SNS: the points of all wildcards of a field, times their number.
        self.wildcard_points += sum(self._field_points) * len(self._field_points)
        self._field_points.clear()
        return tuple(found)

    def _term(self, token: Token) -> Term:
        if token.kind == "[":
            self._tokens.refuse("Match value must be String, number, true, false, or null")
        if token.kind == "{":
            return self._expression()
        if token.kind == "string":
            return terms.exact(token.text)
        return terms.exact(_CONSTANTS.get(token.kind) or self._number(token))

    def _expression(self) -> Term:
        token = self._tokens.next()
        if token.kind != "name":
            self._tokens.refuse("Match expression name not found")
        read = self._readers.get(token.text)
        if read is None:
            self._tokens.refuse(f"Unrecognized match type {token.text}")
        return read()

    def _close(self, otherwise: str = _ONE_KEY) -> None:
        if self._tokens.next().kind != "}":
            self._tokens.refuse(otherwise)

    def _textual(self, kind: str, make: Callable[[str], Term]) -> Term:
        token = self._tokens.next()
        if token.kind != "string":
            self._tokens.refuse(f"{kind} match pattern must be a string")
        term = make(token.text)
        self._close()
        return term

    def _affix(self, kind: str, make: Callable[[str], Term], make_folded: Callable[[str], Term]) -> Term:
        if self._tokens.peek().kind != "{":
            return self._textual(kind, make)
        self._tokens.next()
        name = self._tokens.next()
        if name.kind != "name":
            self._tokens.refuse(f"{kind.capitalize()} expression name not found")
        if name.text != "equals-ignore-case":
            self._tokens.refuse(f"Unsupported {kind} pattern: {name.text}")
        term = self._textual(name.text, make_folded)
        self._close()
        return term

    def _wildcard(self, text: str) -> Term:
        self._count_wildcard(text)
        return terms.wildcard(text)

    def _count_wildcard(self, text: str, more: int = 0) -> None:
        """Raises PatternError. SNS: one star has one point, several have three each."""
        try:
            stars = terms.wildcard_stars(text)
        except PatternError as error:
            self._tokens.refuse(error.reason)
        if stars > self._limits.wildcards_max:
            raise PatternError(TOO_COMPLEX)
        self._field_points.append((stars if stars < 2 else 3 * stars) + more)

    def _exists(self) -> Term:
        match self._tokens.next().kind:
            case "true":
                term = terms.present()
            case "false":
                term = terms.absent()
            case _:
                self._tokens.refuse("exists match pattern must be either true or false.")
        self._close()
        return term

    def _numeric(self) -> Term:
        if self._tokens.next().kind != "[":
            self._tokens.refuse("Value of numeric must be an array.")
        token = self._tokens.next()
        if token.kind != "string":
            self._tokens.refuse(f"Invalid member in numeric match: {token.text}")
        name = _OPERATORS.get(token.text)
        if name is None:
            self._tokens.next()  # the fault is reported behind it
            self._tokens.refuse(f"Unrecognized numeric range operator: {token.text}")
        number = self._bound(name)
        numbers = self._range(token.text, number)
        self._close(_TOO_MANY)
        return terms.numeric(numbers)

    def _range(self, operator: str, number: Number) -> NumberRange:
        if operator in (">", ">=") and self._tokens.peek().kind != "]":
            return self._two_bounds(number, includes_bottom=operator == ">=")
        if self._tokens.next().kind != "]":
            self._tokens.refuse(_TOO_MANY)
        match operator:
            case "=":
                return NumberRange(number, True, number, True)
            case ">" | ">=":
                return NumberRange(number, operator == ">=", None, False)
            case _:
                return NumberRange(None, False, number, operator == "<=")

    def _two_bounds(self, bottom: Number, *, includes_bottom: bool) -> NumberRange:
        token = self._tokens.next()
        if token.kind != "string":
            self._tokens.refuse(f"Bad value in numeric range: {token.text}")
        if token.text not in ("<", "<="):
            self._tokens.refuse(f"Bad numeric range operator: {token.text}")
        top = self._bound(token.text)
        if self._tokens.next().kind != "]":
            self._tokens.refuse("Too many terms in numeric range expression")
        if bottom >= top:
            self._tokens.refuse("Bottom must be less than top")
        return NumberRange(bottom, includes_bottom, top, token.text == "<=")

    def _bound(self, operator: str) -> Number:
        token = self._tokens.next()
        if token.kind != "number":
            self._tokens.refuse(f"Value of {operator} must be numeric")
        return self._limited(token)

    def _limited(self, token: Token) -> Number:
        number = self._number(token)
        most = self._limits.number_max
        if not -most <= number <= most:
            self._refuse_number()
        return number

    def _number(self, token: Token) -> Number:
        try:
            return Decimal(token.text)
        except DecimalException:  # its exponent has more than 18 digits
            self._refuse_number()

    def _refuse_number(self) -> NoReturn:
        most = self._limits.number_max
        self._tokens.refuse(f"Value must be between {-most} and {most}, inclusive")

    def _anything_but(self) -> Term:
        token = self._tokens.next()
        if token.kind != "{":
            term = terms.anything_but(self._refused_values(token))
            self._close(_TOO_MANY)
            return term
        name = self._tokens.next()
        if name.kind != "name":
            self._tokens.refuse("Anything-But expression name not found")
        if name.text not in _ANYTHING_BUT_KINDS:
            self._tokens.refuse(f"Unsupported anything-but pattern: {name.text}")
        texts = self._refused_texts(name.text)
        self._close(_TOO_MANY)
        self._close(_TOO_MANY)
        return terms.anything_but_like(name.text, texts)

    def _refused_values(self, token: Token) -> list[Value]:
        if token.kind in ("string", "number"):
            return [self._refused_value(token)]
        if token.kind != "[":
            self._refuse_anything_but()
        kinds: set[str] = set()
        values: list[Value] = []
        fine = 0
        while (token := self._tokens.next()).kind != "]":
            if token.kind not in ("string", "number"):
                self._tokens.refuse("Inside anything but list, start|null|boolean is not supported.")
            kinds.add(token.kind)
            value = self._refused_value(token)
            fine += isinstance(value, Decimal) and number_key(value) is None
            values.append(value)
        if len(kinds) != 1:
            self._tokens.refuse(
                "Inside anything but list, either all values are number or string, mixed type is not supported"
            )
        if fine > _FINE_NUMBERS_MAX:
            raise PatternError(TOO_COMPLEX)
        return values

    def _refused_value(self, token: Token) -> Value:
        return token.text if token.kind == "string" else self._limited(token)

    def _refused_texts(self, kind: str) -> list[str]:
        token = self._tokens.next()
        if token.kind not in ("string", "number", "["):
            self._refuse_anything_but()
        if token.kind != "[":
            return [self._refused_text(kind, token)]
        texts = []
        while (token := self._tokens.next()).kind != "]":
            texts.append(self._refused_text(kind, token))
        if not texts:
            self._tokens.refuse("Empty arrays are not allowed")
        return texts

    def _refused_text(self, kind: str, token: Token) -> str:
        if token.kind != "string":
            self._tokens.refuse(
                {
                    "equals-ignore-case": "Inside anything-but/equals-ignore-case list, number|start|null|boolean is "
                    "not supported.",
                    "wildcard": "wildcard match pattern must be a string",
                }.get(kind, "prefix/suffix match pattern must be a string")
            )
        if kind in ("prefix", "suffix") and not token.text:
            self._tokens.refuse("Null prefix/suffix not allowed")
        if kind == "wildcard":
            self._count_wildcard(token.text, more=1)  # SNS: anything-but adds a point
        return token.text

    def _refuse_anything_but(self) -> NoReturn:
        self._tokens.refuse("Value of anything-but must be an array or single string/number value.")
