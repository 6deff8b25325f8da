"""Reads an init script of LocalStack: the queues, topics and subscriptions that its ``awslocal`` commands make.

The script is not run. Plain commands are understood, with variables and ``$(awslocal …)``; every other line that
could matter becomes a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.migrate.plan import ImportFailure, Plan, PlannedQueue, PlannedTopic, Scalar
from penstock.migrate.shell import DEPTH_MAX, Command, ShellVariable, Substitution, Word, read_commands
from penstock.names import Arn, QueueName
from penstock.server.settings.config import Config
from penstock.services.sqs.attributes import SETTABLE
from penstock.topics.names import TopicName

_PROGRAMS = ("awslocal", "aws")
_WITHOUT_EFFECT = ("echo", "printf", "set", "shopt", "sleep", "true", ":", "exit", "date", "wait")
_FILTERS = ("jq", "cat", "tee", "grep", "head", "tail", "tr", "sed")
_DECLARES = ("export", "local", "readonly", "declare")
_OPENS, _CLOSES = (
    ("if", "for", "while", "until", "case", "select", "function", "{"),
    ("fi", "done", "esac", "}"),
)
_FLAGS = ("--no-cli-pager", "--debug", "--no-verify-ssl", "--no-paginate", "--no-sign-request")
_REGIONS = ("AWS_DEFAULT_REGION", "AWS_REGION", "DEFAULT_REGION")
_LIKE_FUNCTIONS = "loops, conditions and functions are not read"
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_PAIR = re.compile(r"([\w.:-]+)=([^,={}\[\]\"]*)(?:,|$)", re.ASCII)
_PATH = re.compile(r"\.?(\w+(?:\.\w+)*)", re.ASCII)

Options = dict[str, list[str]]
Answer = dict[str, Any]


class _NotUnderstood(Exception):
    pass


def read_localstack(text: str) -> Plan:
    """Raises ImportFailure."""
    if "\0" in text:
        raise ImportFailure("it is not a shell script")
    script = _Script()
    script.run(text)
    script.plan.validate()
    return script.plan


class _Script:
    def __init__(self) -> None:
        self.plan = Plan()
        self._variables: dict[str, str] = {}
        self._subscriptions: dict[str, dict[str, Scalar]] = {}  # by an ARN that they have in the script only
        self._region: str | None = None  # that of all; None: no command has named one
        self._actions: dict[tuple[str, str], Callable[[Options], Answer]] = {
            ("sqs", "create-queue"): self._create_queue,
            ("sqs", "set-queue-attributes"): self._set_queue_attributes,
            ("sqs", "tag-queue"): self._tag_queue,
            ("sqs", "get-queue-url"): lambda options: {"QueueUrl": self._url(_one(options, "queue-name"))},
            ("sqs", "get-queue-attributes"): self._get_queue_attributes,
            ("sns", "create-topic"): self._create_topic,
            ("sns", "set-topic-attributes"): self._set_topic_attributes,
            ("sns", "subscribe"): self._subscribe,
            ("sns", "set-subscription-attributes"): self._set_subscription_attributes,
        }

    def run(self, text: str) -> None:
        blocks: list[str] = []
        block: Command | None = None
        for command in read_commands(text):
            word = _plain(command.words[0]) if command.words else ""
            if word in _OPENS or (command.after == "(" and len(command.words) == 1):
                block = block or command
                blocks += [word] if word in _OPENS else []
            elif word in _CLOSES and blocks:
                blocks.pop()
                if not blocks and block is not None:
                    self._note_block(block, command.line)
                    block = None
            elif block is None:
                self._run_noting(command)
        if block is not None:
            self._note_block(block, text.count("\n") + 1)

    def _note_block(self, block: Command, end: int) -> None:
        lines = f"line {block.line} was" if end == block.line else f"lines {block.line} to {end} were"
        self.plan.notes.append(f"{lines} left out: {_LIKE_FUNCTIONS}")

    def _run_noting(self, command: Command) -> None:
        try:
            self._run(command)
        except _NotUnderstood as error:
            shown = " ".join(command.text.split())
            shown = f"{shown[:100]}…" if len(shown) > 100 else shown
            self.plan.notes.append(f"line {command.line} was left out: {error}: {shown}")

    def _run(self, command: Command) -> None:
        """Raises _NotUnderstood."""
        if command.problem:
            raise _NotUnderstood(command.problem)
        name = _plain(command.words[0])
        if name in _WITHOUT_EFFECT or (command.before == "|" and name in _FILTERS):
            return
        rest = list(command.words)
        if name in _DECLARES:
            del rest[0]
        while rest and (assigned := _assignment(rest[0])) is not None:
            self._assign(*assigned)
            del rest[0]
        if not rest or name in _DECLARES:
            return
        words = [self._value(word) for word in rest]
        if words[0] not in _PROGRAMS:
            raise _NotUnderstood("it is not a command of awslocal")
        self._perform(words[1:])

    def _assign(self, name: str, word: Word) -> None:
        self._variables.pop(name, None)
        self._variables[name] = value = self._value(word)
        if name in _REGIONS:
            self._use_region(value)

    # -- values ----------------------------------------------------------------------------------------------------

    def _value(self, word: Word, depth: int = 0) -> str:
        """Raises _NotUnderstood."""
        return "".join(part if isinstance(part, str) else self._expanded(part, depth) for part in word)

    def _expanded(self, part: ShellVariable | Substitution, depth: int) -> str:
        if isinstance(part, ShellVariable):
            value = self._variables.get(part.name) or part.default
            if value is None:
                raise _NotUnderstood(f"the value of ${part.name} is not known")
            return value
        if depth == DEPTH_MAX:
            raise _NotUnderstood("$( ) is nested too deeply")
        commands = list(read_commands(part.text, part.line))
        words = [[self._value(word, depth + 1) for word in command.words] for command in commands]
        if not words or any(command.problem for command in commands) or words[0][0] not in _PROGRAMS:
            raise _NotUnderstood("the output of this command is not known")
        answer, options = self._perform(words[0][1:])
        return _output(answer, options, words[1:])

    def _use_region(self, region: str) -> None:
        if self._region not in (None, region):
            raise _NotUnderstood(
                f"declared queues and topics belong to one region, which is {self._region} here"
            )
        if self._region is None and region != Config.region:
            self.plan.set("region", region, "region")
        self._region = region

    def _own(self, account: str, region: str) -> bool:
        return (account, region) == (Config.account, self._region or Config.region)

    # -- commands --------------------------------------------------------------------------------------------------

    def _perform(self, words: list[str]) -> tuple[Answer, Options]:
        """What the command would answer, and its options. Raises _NotUnderstood."""
        service, action, options = _parsed(words)
        if service not in ("sqs", "sns"):
            raise _NotUnderstood(f"there is no {service} here" if service else "it names no service")
        perform = self._actions.get((service, action))
        if perform is None:
            if action.startswith(("list-", "receive-", "get-", "wait")):
                return {}, options
            raise _NotUnderstood(f"{service} {action} has no place in a config file")
        if "region" in options:
            self._use_region(_one(options, "region"))
        return perform(options), options

    def _create_queue(self, options: Options) -> Answer:
        name = _one(options, "queue-name")
        queue = self.plan.queues.setdefault(name, PlannedQueue(name))
        self._set_on_queue(queue, _pairs(options.get("attributes", [])))
        queue.tags.update(_pairs(options.get("tags", [])))
        return {"QueueUrl": self._url(name)}

    def _set_queue_attributes(self, options: Options) -> Answer:
        self._set_on_queue(self._queue(options), _pairs(options.get("attributes", [])))
        return {}

    def _tag_queue(self, options: Options) -> Answer:
        self._queue(options).tags.update(_pairs(options.get("tags", [])))
        return {}

    def _get_queue_attributes(self, options: Options) -> Answer:
        name = _one(options, "queue-url").rstrip("/").rpartition("/")[2]
        return {
            "Attributes": {"QueueArn": QueueName(Config.account, self._region or Config.region, name).arn}
        }

    def _queue(self, options: Options) -> PlannedQueue:
        name = _one(options, "queue-url").rstrip("/").rpartition("/")[2]
        if name not in self.plan.queues:
            raise _NotUnderstood(f'the script makes no queue "{name}"')
        return self.plan.queues[name]

    def _set_on_queue(self, queue: PlannedQueue, attributes: Mapping[str, str]) -> None:
        for key, value in attributes.items():
            if key == "RedrivePolicy" and value:
                queue.read_redrive(value)
            elif key in SETTABLE:
                queue.attributes[key] = value
            else:
                queue.notes.append(f"{key} = {value} was left out: it has no meaning here")

    def _create_topic(self, options: Options) -> Answer:
        name = _one(options, "name")
        topic = self.plan.topics.setdefault(name, PlannedTopic(name))
        topic.attributes.update(_pairs(options.get("attributes", [])))
        topic.tags.update(_tag_list(options.get("tags", [])))
        return {"TopicArn": TopicName(Config.account, self._region or Config.region, name).arn}

    def _set_topic_attributes(self, options: Options) -> Answer:
        topic = self._topic(_one(options, "topic-arn"))
        topic.attributes[_one(options, "attribute-name")] = _one(options, "attribute-value")
        return {}

    def _topic(self, arn: str) -> PlannedTopic:
        name = TopicName.of_arn(arn)
        if name is None or not self._own(name.account, name.region) or name.name not in self.plan.topics:
            raise _NotUnderstood(f'the script makes no topic "{arn}"')
        return self.plan.topics[name.name]

    def _subscribe(self, options: Options) -> Answer:
        arn = _one(options, "topic-arn")
        topic = self._topic(arn)
        table = self._subscriber(_one(options, "protocol"), _one(options, "notification-endpoint"))
        table |= _pairs(options.get("attributes", []))
        topic.subscriptions.append(table)
        arn = f"{arn}:{len(self._subscriptions)}"
        self._subscriptions[arn] = table
        return {"SubscriptionArn": arn}

    def _subscriber(self, protocol: str, endpoint: str) -> dict[str, Scalar]:
        if protocol != "sqs":
            return {"protocol": protocol, "endpoint": endpoint}
        parsed = Arn.parse(endpoint)
        if parsed is None:
            # LocalStack takes the URL of a queue, too.
            return {"queue": endpoint.rstrip("/").rpartition("/")[2]}
        if self._own(parsed.account, parsed.region):
            return {"queue": parsed.resource}
        return {"endpoint": endpoint}

    def _set_subscription_attributes(self, options: Options) -> Answer:
        table = self._subscriptions.get(_one(options, "subscription-arn"))
        if table is None:
            raise _NotUnderstood("the script makes no such subscription")
        table[_one(options, "attribute-name")] = _one(options, "attribute-value")
        return {}

    def _url(self, name: str) -> str:
        return f"http://localhost:4566/{Config.account}/{name}"


def _plain(word: Word) -> str:
    """The text of a word without variables; otherwise nothing."""
    return (
        "".join(part for part in word if isinstance(part, str))
        if all(isinstance(p, str) for p in word)
        else ""
    )


def _assignment(word: Word) -> tuple[str, Word] | None:
    first = word[0] if word else ""
    found = _ASSIGNMENT.fullmatch(first) if isinstance(first, str) else None
    return None if found is None else (found[1], (found[2], *word[1:]))


def _parsed(words: list[str]) -> tuple[str, str, Options]:
    """Service, action and options; those before the service count, too."""
    options: Options = {}
    left = iter(words)
    named: list[str] = []
    for word in left:
        if not word.startswith("--"):
            named.append(word)
            if len(named) == 2:
                break
            continue
        name, equals, value = word[2:].partition("=")
        if word not in _FLAGS:
            options[name] = [value] if equals else [next(left, "")]
    service, action = [*named, "", ""][:2]
    return service, action, options | _options(left)


def _options(words: Iterator[str]) -> Options:
    options: Options = {}
    values: list[str] = []
    for word in words:
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            values = options[name] = [value] if equals else []
        else:
            values.append(word)
    return options


def _one(options: Options, name: str) -> str:
    match options.get(name):
        case [value] if value and not value.startswith("file://"):
            return value
    raise _NotUnderstood(f"--{name} is missing, or not one plain value")


def _pairs(texts: list[str]) -> dict[str, str]:
    """Reads JSON, or Name=Value with commas between them."""
    if len(texts) == 1 and texts[0].lstrip().startswith("{"):
        read = _json(texts[0])
        return {str(key): each if isinstance(each, str) else json.dumps(each) for key, each in read.items()}
    found: dict[str, str] = {}
    for text in texts:
        if "".join(each[0] for each in _PAIR.finditer(text)) != text:
            raise _NotUnderstood(f"{text} is not plain: give it as JSON")
        found |= {name: value for name, value in _PAIR.findall(text)}
    return found


def _tag_list(texts: list[str]) -> dict[str, str]:
    """Reads a list in JSON, or Key=NAME,Value=TEXT for each tag."""
    if len(texts) == 1 and texts[0].lstrip().startswith("["):
        listed = _json(texts[0])
    else:
        listed = [_pairs([text]) for text in texts]
    try:
        return {str(tag["Key"]): str(tag["Value"]) for tag in listed}
    except (KeyError, TypeError):
        raise _NotUnderstood("the tags are not Key=NAME,Value=TEXT") from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise _NotUnderstood("its JSON is not valid") from None


def _output(answer: Answer, options: Options, others: list[list[str]]) -> str:
    """What ``$(…)`` stands for. ``others``: the commands behind the first, such as jq."""
    query = options.get("query", [""])[0] if options.get("query") else ""
    if others:
        if len(others) > 1 or others[0][0] != "jq" or query:
            raise _NotUnderstood("the output of this command is not known")
        query = next((word for word in reversed(others[0]) if word.startswith(".")), "")
    value: Any = answer
    if not query and len(answer) == 1 and options.get("output") == ["text"]:
        (value,) = answer.values()
    elif (path := _PATH.fullmatch(query)) is not None:
        for name in path[1].split("."):
            value = value.get(name) if isinstance(value, dict) else None
    if not isinstance(value, str):
        raise _NotUnderstood("the output of this command is not known")
    return value
