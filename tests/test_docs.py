"""The docs are true: every setting is documented, examples work as printed, links have a target."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import compatibility
import reference
from penstock.cli import main
from penstock.server.reload import RUN_TIME
from penstock.server.settings.config import Setting, settings
from penstock.server.settings.load import load_config
from penstock.services.sns import ACTIONS as SNS_ACTIONS
from penstock.services.sqs import ACTIONS
from penstock.services.sqs.attributes import READABLE
from support.documents import DOCUMENTS, ROOT, anchors, blocks, committable, links
from support.process import ServerProcess
from support.rows import every_row

CONFIGURATION = (ROOT / "docs/configuration.md").read_text()
EXAMPLE = ROOT / "docs/examples/penstock.toml"


# -- settings ------------------------------------------------------------------------------------------------


def rows() -> dict[str, list[str]]:
    """The rows of configuration.md that begin with a setting's three names, by the first of them."""
    found = {}
    for line in CONFIGURATION.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        names = re.findall(r"`([^`]+)`", cells[0])
        if len(names) == 3 and names[1].startswith("--"):
            found[names[0]] = [*names, *cells[1:]]
    return found


def test_every_setting_and_no_other_is_documented() -> None:
    assert list(sorted(rows())) == sorted(settings())


@every_row("setting", settings().values())
def test_a_setting_is_documented_with_its_names_and_default(setting: Setting) -> None:
    _, flag, variable, default, _, meaning = rows()[setting.name]
    assert (flag, variable) == (setting.flag, setting.variable)
    shown = setting.default if default == "none" and not setting.default else setting.type.parse(default)
    assert shown == setting.default
    assert meaning


def test_the_settings_that_can_change_at_run_time_are_listed() -> None:
    text = (ROOT / "docs/configuration.md").read_text()
    listed = text.partition("<!-- run time: begin -->")[2].partition("<!-- run time: end -->")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == RUN_TIME


# -- configuration files -------------------------------------------------------------------------------------


@every_row("document", DOCUMENTS)
def test_every_configuration_example_is_valid(document: Path, tmp_path: Path) -> None:
    for number, text in enumerate(blocks(document, "toml")):
        file = tmp_path / f"{number}.toml"
        file.write_text(text)
        load_config({"config": str(file)}, {})


def test_the_full_example_is_the_file() -> None:
    assert EXAMPLE.read_text() in blocks(ROOT / "docs/configuration.md", "toml")


def test_the_full_example_starts(tmp_path: Path) -> None:
    arguments = ("--config", str(EXAMPLE), "--data", str(tmp_path / "data"), "--port", "0")
    with ServerProcess(*arguments) as server:
        assert server.stop() == 0


# -- examples that run ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory") as running:
        yield running


def run(command: list[str], script: str, server: ServerProcess) -> str:
    """Runs a script as printed, except for the port."""
    assert "9324" in script
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, input=script.replace("9324", str(server.port)), text=True, timeout=120, check=False,
        capture_output=True, env={**os.environ, "PATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_first_message_with_the_command(server: ServerProcess) -> None:
    (script,) = [block for block in blocks(ROOT / "README.md", "sh") if "penstock queue create" in block]
    endpoint = "export AWS_ENDPOINT_URL_SQS=http://127.0.0.1:9324\n"
    output = run(["bash", "-eu"], endpoint + script, server)
    assert output.count("one cappuccino") == 2  # it is seen, and received


def test_the_first_message_with_boto3(server: ServerProcess) -> None:
    (script,) = blocks(ROOT / "README.md", "python")
    assert run([sys.executable, "-"], script, server) == "one espresso\n"


def test_the_first_message_with_the_aws_cli(server: ServerProcess) -> None:
    script, _ = [block for block in blocks(ROOT / "README.md", "sh") if "aws " in block]
    output = run(["bash", "-eu"], script, server)
    assert f"{server.url}/000000000000/orders" in output
    assert '"Body": "two lattes"' in output


def test_the_secured_server_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (commands,) = [block for block in blocks(ROOT / "README.md", "sh") if "penstock user create" in block]
    _, use = [block for block in blocks(ROOT / "README.md", "sh") if "aws " in block]
    add, serve = (shlex.split(line, comments=True) for line in commands.splitlines())
    subprocess.run([sys.executable, "-m", *add], check=True, timeout=60, capture_output=True)
    with ServerProcess(*serve[2:]) as server:
        assert server.facts["access"].startswith("secured")
        assert server.facts["encryption"].startswith("on")
        assert "/000000000000/orders" in run(["bash", "-eu"], use, server)
        assert server.stop() == 0
    assert "alice" in Path("penstock-secured/audit/audit.jsonl").read_text()
    with ServerProcess() as server:  # as in the first example: without credentials, in the same directory
        assert server.facts["access"].startswith("open")
        assert server.stop() == 0
    assert committable({file.name + "/" * file.is_dir() for file in tmp_path.iterdir()}) == set()


def test_a_backup_of_a_running_server_can_be_started_from(tmp_path: Path) -> None:
    document = ROOT / "docs/running.md"
    (backup,) = (script for script in blocks(document, "sh") if "penstock backup" in script)
    (restore,) = re.findall(r"`(penstock restore [^`]*--data [^`]*)`", document.read_text())

    def run_here(command: str) -> None:
        here = command.replace("/var/lib/penstock", str(tmp_path / "data")).replace(
            "/var/backups", str(tmp_path)
        )
        subprocess.run([sys.executable, "-m", *here.split()], check=True, timeout=60)

    with ServerProcess("--config", str(EXAMPLE), "--data", str(tmp_path / "data"), "--port", "0"):
        run_here(backup)
    run_here(restore)
    with ServerProcess("--data", str(tmp_path / "data-restored")) as restored:
        assert restored.facts["recovered"].startswith("4 queues, ")
        assert restored.stop() == 0


_CREATED = re.compile(
    r"(?:>>? ?|--(?:data|dump|out|output) |mkdir |penstock (?:backup|dump \S+|key root) )([a-z.][\w./-]*)"
)


def test_files_that_examples_create_are_not_committed() -> None:
    """A reader who pastes examples in a checkout has data, keys and secrets in it afterwards."""
    scripts = (script for document in DOCUMENTS for script in blocks(document, "sh"))
    created = {name for script in scripts for name in _CREATED.findall(script)}
    assert created >= {"penstock-secured", "cluster.secret", "new.key", "orders.jsonl", "latest.tar"}
    assert committable({name if "." in name else f"{name}/" for name in created}) == set()


# -- names and links -----------------------------------------------------------------------------------------


def test_every_action_is_listed() -> None:
    listed = set(re.findall(r"\b[A-Z]\w+", (ROOT / "docs/sqs.md").read_text()))
    assert set(ACTIONS) <= listed
    for document in ("README.md", "docs/sqs.md"):
        assert f"All {len(ACTIONS)} actions" in (ROOT / document).read_text()


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    architecture = (ROOT / "docs/ARCHITECTURE.md").read_text()
    for requirement in project["dependencies"]:
        name = re.split(r"[^\w-]", requirement)[0]
        assert f"\n| {name} | " in architecture, name


@every_row("document", [each for each in DOCUMENTS if each.name != "CHANGELOG.md"])
def test_every_command_exists(document: Path) -> None:
    """``penstock key rotate``, in examples and in the text. The changelog may name former commands."""
    for name, rest in re.findall(
        r"(?:^|[`/ ])penstock ([a-z][a-z-]+)((?: [a-z-]+)?)", document.read_text(), re.MULTILINE
    ):
        command = main.get_command(click.Context(main), name)
        if command is None:
            continue  # prose: "beside a Service named penstock"
        if isinstance(command, click.Group) and rest:
            assert rest.strip() in command.commands, f"penstock {name}{rest}"


def test_errors_of_the_troubleshooting_page_exist() -> None:
    source = "".join(file.read_text() for file in (ROOT / "src").rglob("*.py"))
    listed = False
    checked = 0
    for line in (ROOT / "docs/troubleshooting.md").read_text().splitlines():
        cells = line.split(" | ")
        if not line.startswith("|") or cells[0] in ("| the line contains", "| error"):
            listed = line.startswith("|")
        elif listed:
            for error in re.findall(r"`([^`]+)`", cells[0]):
                checked += 1
                assert error.removeprefix("AWS.SimpleQueueService.") in source, error
    assert checked > 30


@every_row("document", [each for each in DOCUMENTS if each.name != "CHANGELOG.md"])
def test_every_flag_exists(document: Path) -> None:
    """``penstock queue create orders --visibility 2m``, in examples."""
    for line in re.findall(r"^(?:\S*/)?penstock (.*)$", "\n".join(blocks(document, "sh")), re.MULTILINE):
        words = re.split(r" [#|>&]|\)|;", line)[0].split()
        context = click.Context(main)
        command: click.Command | None = main
        while isinstance(command, click.Group) and words and not words[0].startswith("-"):
            command = command.get_command(context, words.pop(0))
        assert command is not None, line
        known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given - known <= {"--help"}, line


INTERNALS = sorted((ROOT / "docs/internals").glob("*.md"))
RECIPES = sorted((ROOT / "docs/recipes").glob("*.md"))


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.name)
def test_the_code_of_a_recipe_is_in_its_files(recipe: Path) -> None:
    """`make test-clients` runs the files."""
    files = (ROOT / "docs/examples" / recipe.stem).rglob("*.*")
    contents = {file.read_text() for file in files if file.is_file()}
    found = [text for language in ("python", "java", "php", "yaml") for text in blocks(recipe, language)]
    assert found and set(found) <= contents


@every_row("document", DOCUMENTS)
def test_every_link_has_a_target(document: Path) -> None:
    for link in links(document.read_text()):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_document_is_in_the_readme_and_in_the_navigation_of_the_site() -> None:
    navigation = (ROOT / "website/mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    here = {file.relative_to(ROOT / "docs").as_posix() for file in (ROOT / "docs").rglob("*.md")}
    assert here - listed == set(), "add it to website/mkdocs.yml"
    in_readme = {link.partition("#")[0] for link in links((ROOT / "README.md").read_text())}
    assert {f"docs/{page}" for page in here} - in_readme == set(), "add it to README.md"


def test_the_introduction_to_the_source_is_short() -> None:
    """What takes longer to explain is a page of docs/internals, which the introduction links."""
    introduction = (ROOT / "docs/ARCHITECTURE.md").read_text()
    assert len(introduction.splitlines()) <= 200
    pages = {f"internals/{page.name}" for page in INTERNALS}
    assert pages and pages <= set(links(introduction))


@pytest.mark.parametrize(
    "document",
    [ROOT / "docs/ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *INTERNALS],
    ids=lambda path: path.name,
)
def test_every_file_that_is_named_exists(document: Path) -> None:
    """Modules are named below the package, everything else below the root. Folders that make makes are ignored by
    git."""
    ignored = (ROOT / ".gitignore").read_text().splitlines()
    for name in re.findall(r"`([\w./]+(?:\.py|\.sql|\.md|/))`", document.read_text()):
        places = (ROOT / "src/penstock" / name, ROOT / name)
        assert "NAME" in name or name in ignored or any(place.exists() for place in places), name


@pytest.mark.parametrize(
    ("file", "write"),
    [(reference.PAGE, reference.page), (reference.MAN_PAGE, reference.man_page)],
    ids=["page", "man page"],
)
def test_the_reference_of_the_command_line_is_up_to_date(file: Path, write: Callable[[], str]) -> None:
    assert file.read_text(encoding="utf-8") == write(), "commands changed: run `make docs`"


def test_every_command_has_an_example_that_names_it() -> None:
    commands = [each for _, found in reference.sections() for each in found]
    for each in commands:
        examples = "".join(lines for title, lines in each.blocks if title.startswith("Example"))
        assert each.path in examples, each.path


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_the_man_page_has_no_errors() -> None:
    command = ["groff", "-man", "-ww", "-Tutf8", str(reference.MAN_PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    text = re.sub(".\b", "", done.stdout)  # bold letters are printed twice
    assert "penstock queue ls --sort age --descending --limit 5" in text


def test_the_compatibility_page_is_up_to_date() -> None:
    assert compatibility.PAGE.read_text(encoding="utf-8") == compatibility.page(), (
        "tests changed: run `make docs`"
    )


def test_every_action_and_attribute_is_used_by_a_test() -> None:
    page = compatibility.PAGE.read_text(encoding="utf-8")
    names = {
        *ACTIONS, *READABLE, *compatibility.MESSAGE_ATTRIBUTES, *SNS_ACTIONS,
        *compatibility.TOPIC_ATTRIBUTES, *compatibility.SUBSCRIPTION_ATTRIBUTES,
    } - {"All"}  # fmt: skip
    assert {name for name in names if f"| `{name}` |" not in page} == set()
