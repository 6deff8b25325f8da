"""Every public name for users is documented: the reference of the site is made of these docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import penstock.client
import penstock.testing
from penstock.client import (
    BufferedReceiver,
    Client,
    Consumer,
    IdempotencyStore,
    JsonCodec,
    MessageContext,
    Producer,
    RequestSender,
    Responder,
    SendEntry,
    SyncClient,
    SyncProducer,
    Worker,
)
from penstock.client.actions import Actions

# What a store of keys does is documented once, by the protocol.
INHERITED = {name for name in vars(IdempotencyStore) if not name.startswith("_")}

# What mkdocstrings renders as a list: the kind of a field and perhaps a name, at the beginning of a line.
_FIELD = re.compile(r"^:(param \w+|returns|raises [\w.]+): \S")
_ANY_FIELD = re.compile(r":(param|returns?|raises)\b")


def public() -> Iterator[tuple[str, Any]]:
    for package in (penstock.client, penstock.testing):
        for name in package.__all__:
            yield name, getattr(package, name)


def fields_of_text(text: str) -> dict[str, str]:
    """The text of each field, such as ``param body``, with its lines joined."""
    fields: dict[str, str] = {}
    last = ""
    for line in inspect.cleandoc(text).splitlines():
        if _FIELD.match(line):
            last, _, fields[last] = line[1:].partition(": ")
        elif last and line.startswith("    "):
            fields[last] += f" {line.strip()}"
    return fields


def malformed_fields(text: str) -> list[str]:
    """Lines with a field that does not begin them, and lines after a field that do not belong to one."""
    found = []
    has_fields = False
    for line in inspect.cleandoc(text).splitlines():
        begins = _FIELD.match(line) is not None
        has_fields = has_fields or begins
        is_stray = has_fields and line and not begins and not line.startswith("    ")
        if is_stray or len(_ANY_FIELD.findall(line)) > begins:
            found.append(line)
    return found


def missing(name: str, text: str | None, function: Any, parameters: list[str]) -> list[str]:
    """What is not documented of a callable: a parameter, or its default. ``function``: None, or what has defaults."""
    if not text:
        return [f"{name} has no docstring"]
    fields = fields_of_text(text)
    found = [f"{name}: {each}" for each in parameters if f"param {each}" not in fields]
    signature = inspect.signature(function).parameters if function is not None else {}
    return found + [
        f"{name}: the default of {each}"
        for each in parameters
        if each in signature and signature[each].default is not inspect.Parameter.empty
        if "default" not in fields.get(f"param {each}", "default")
    ]


def parameters_of(function: Any) -> list[str]:
    """Returns the parameters without the object itself, which methods of the blocking client call ``client``."""
    found = list(inspect.signature(function).parameters)
    return found[1:] if found[:1] in (["self"], ["client"]) else found


def fields_of(kind: type) -> list[str]:
    """Fields of a struct that have no docstring of their own."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(tree, ast.ClassDef)
    return [
        node.target.id
        for node, after in zip(tree.body, [*tree.body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant))
    ]


def missing_of_class(name: str, kind: type) -> list[str]:
    found = [] if kind.__doc__ else [f"{name} has no docstring"]
    constructor = vars(kind).get("__init__")
    is_written = isinstance(constructor, FunctionType) and "def __init__" in inspect.getsource(kind)
    if is_written and (parameters := parameters_of(constructor)):
        found += missing(f"{name}.__init__", constructor.__doc__, constructor, parameters)
    fields = fields_of(kind)
    found += missing(name, kind.__doc__, kind if fields else None, fields)
    members = {
        key: value
        for each in reversed(kind.__mro__)
        if each.__module__.startswith("penstock.")
        for key, value in vars(each).items()
    }
    for key, member in members.items():
        if (key.startswith("_") and key != "__call__") or (key in INHERITED and kind is not IdempotencyStore):
            continue
        if isinstance(member, property) and not member.__doc__:
            found.append(f"{name}.{key} has no docstring")
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            found += missing(f"{name}.{key}", function.__doc__, function, parameters_of(function))
    return found


def test_every_public_name_says_what_it_does_and_names_its_parameters() -> None:
    found = []
    for name, value in public():
        if isinstance(value, type):
            found += missing_of_class(name, value)
        elif isinstance(value, FunctionType):
            found += missing(name, value.__doc__, value, parameters_of(value))
    assert not found, "\n".join(found)


def test_a_parameter_that_is_not_named_is_found() -> None:
    def send(body: str, *, delay: int = 0) -> None:
        """Send it.

        :param body: The text.
        """

    assert missing("send", send.__doc__, send, parameters_of(send)) == ["send: delay"]
    assert missing("send", None, send, []) == ["send has no docstring"]


def test_a_default_that_is_not_named_is_found() -> None:
    def send(body: str, *, delay: int = 0, group: str = "") -> None:
        """Send it.

        :param body: The text.
        :param delay: How long it is hidden.
        :param group: The message group, which is
            empty by default.
        """

    assert missing("send", send.__doc__, send, parameters_of(send)) == ["send: the default of delay"]


def docstrings() -> Iterator[tuple[str, str]]:
    """Each docstring of the two packages with its place, of classes and functions, and of attributes."""
    for package in (penstock.client, penstock.testing):
        for file in sorted(Path(package.__path__[0]).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text())):
                match node:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield f"{file.name}:{node.lineno}", text


def test_each_field_begins_a_line() -> None:
    """Others are rendered as a part of the paragraph that they stand in."""
    found = [f"{place}: {line}" for place, text in docstrings() for line in malformed_fields(text)]
    assert not found, "\n".join(found)


def test_a_field_in_the_middle_of_a_line_is_found() -> None:
    for text in (
        "Send it. :param body: The text.",
        "Send it.\n\n:param body: The text. :returns: Its id.",
        "Send it.\n\n:param body: The text.\n    It is sent. :raises ValueError: It is empty.",
        "Send it.\n\n:returns: Its id. :raises\nValueError: It is empty.",
        "Send it.\n\n:param body: The text,\nwhich is sent.",
        "Send it.\n\n:param body:\n    The text.",
    ):
        assert malformed_fields(text), text
    assert not malformed_fields("Send it.\n\n:param body: The text,\n    which is sent.\n:returns: Its id.")


def examples_of(text: str) -> Iterator[str]:
    """Indented paragraphs above the fields."""
    for paragraph in inspect.cleandoc(text).partition("\n:")[0].split("\n\n"):
        if paragraph.startswith("    "):
            yield textwrap.dedent(paragraph)


def wrong_examples(name: str, example: str) -> list[str]:
    """What is wrong in an example of an action: it is no Python, does not call the action, or has wrong arguments."""
    tree = compile(example, name, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "client"
    ]
    found = [] if any(call.func.attr == name for call in calls) else [f"{name} is not called: {example}"]  # type: ignore[attr-defined]
    for call in calls:
        action = getattr(Actions, call.func.attr, None)  # type: ignore[attr-defined]
        try:
            given = {str(each.arg): each.value for each in call.keywords}
            inspect.signature(action).bind("client", *call.args, **given)  # type: ignore[arg-type]
        except TypeError as error:
            found.append(f"{name}: {ast.unparse(call)}: {error}")
    return found


def test_each_action_has_an_example_with_its_parameters() -> None:
    found = []
    for name, function in inspect.getmembers(Actions, inspect.isfunction):
        if not name.startswith("_"):
            examples = list(examples_of(function.__doc__ or ""))
            found += [f"{name} has no example"] * (not examples)
            found += [wrong for each in examples for wrong in wrong_examples(name, each)]
    assert not found, "\n".join(found)


def test_an_example_with_other_parameters_is_found() -> None:
    assert not wrong_examples("purge_queue", 'await client.purge_queue("orders")')
    assert wrong_examples("purge_queue", 'await client.purge_queue("orders", 60)')
    assert wrong_examples("purge_queue", 'await client.purge_queue(queue="orders")')
    assert wrong_examples("purge_queue", 'await client.purge("orders")')
    assert wrong_examples("purge_queue", 'await client.delete_queue("orders")')


# What the examples of the package call their objects.
_CALLED: dict[str, type] = {
    "app": Worker,
    "client": Client,
    "codec": JsonCodec,
    "consumer": Consumer,
    "context": MessageContext,
    "producer": Producer,
    "receiver": BufferedReceiver,
    "responder": Responder,
    "sender": RequestSender,
}


def called(call: ast.Call) -> Any:
    """Returns the public class or the method of one that an example calls; None if it calls something else."""
    match call.func:
        case ast.Name(id=name) if name in penstock.client.__all__:
            return getattr(penstock.client, name)
        case ast.Attribute(value=ast.Name(id=name), attr=method) if name in _CALLED:
            return getattr(_CALLED[name], method)
        case _:
            return None


def wrong_calls(example: str) -> list[str]:
    """What is wrong in an example: it is no Python, or calls something with parameters that it does not have."""
    found = []
    tree = compile(example, "example", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        try:
            function = called(call)
            if function is not None:
                is_method = isinstance(call.func, ast.Attribute)
                given = {str(each.arg): each.value for each in call.keywords}
                inspect.signature(function).bind(*["self"] * is_method, *call.args, **given)
        except (AttributeError, TypeError) as error:
            found.append(f"{ast.unparse(call)}: {error}")
    return found


def test_the_examples_call_what_exists() -> None:
    found = []
    for file in sorted(Path(penstock.client.__path__[0]).rglob("*.py")):
        if file.parent.name == "adapters":  # whose names are those of frameworks
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    found += [
                        f"{file.name}:{node.lineno}: {wrong}"
                        for example in examples_of(text)
                        for wrong in wrong_calls(example)
                    ]
    assert not found, "\n".join(found)


def test_an_example_that_calls_what_does_not_exist_is_found() -> None:
    assert not wrong_calls('sent = await producer.send("latte", delay_seconds=5)')
    assert not wrong_calls("app.use(Metrics())")
    assert wrong_calls('await producer.transmit("latte")')
    assert wrong_calls("await consumer.stop(timeout=10)")
    assert wrong_calls('Responder(client, prefix="prices")')
    assert wrong_calls("app.use(Metrics(1))")


def test_what_users_call_first_has_an_example() -> None:
    classes = (
        BufferedReceiver, Client, Consumer, MessageContext, Producer, RequestSender, Responder, SendEntry, SyncClient,
        SyncProducer, Worker,
    )  # fmt: skip
    methods = (
        BufferedReceiver.receive, Consumer.stop, MessageContext.extend, Producer.send, Producer.submit,
        RequestSender.request, SyncProducer.send, SyncProducer.submit, Worker.handler, Worker.on_start, Worker.run,
        Worker.serve, Worker.use,
    )  # fmt: skip
    for each in (*classes, *methods):
        assert list(examples_of(each.__doc__ or "")), each.__qualname__
