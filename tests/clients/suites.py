"""The clients that are tested, each in a separate folder below ``.clients``.

A suite installs its client, runs its cases against a server, and reports the client's version. Python suites start
servers themselves; the others get an endpoint in SQS_ENDPOINT.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clients.reports import Case, from_cargo, from_go, from_junit
from support.documents import blocks

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".clients"
LOCKED = ROOT / "constraints" / "clients"

Run = Callable[[Sequence[str | Path], Path], str]
"""Run a command in a folder, with time limit and log; gives its output. A failing command is not an error here."""


@dataclass(frozen=True)
class Tool:
    command: str
    version: tuple[str, ...]
    at_least: tuple[int, ...]

    def missing(self) -> str | None:
        """Why the suite cannot run here, if it cannot."""
        wanted = f"{self.command} {'.'.join(map(str, self.at_least))} or newer"
        if shutil.which(self.command) is None:
            return f"{wanted} is not installed"
        said = subprocess.run([self.command, *self.version], capture_output=True, text=True, timeout=60)
        found = re.search(r"\d+(\.\d+)+", said.stdout + said.stderr)
        if found is None or tuple(map(int, found[0].split("."))) < self.at_least:
            return f"{wanted} is needed, here is {found[0] if found else 'an unknown one'}"
        return None


class Suite:
    """``install`` may run any number of times; ``cases`` and ``version`` come after it."""

    client: str
    tools: tuple[Tool, ...] = ()
    needs_server = True
    needs_tls = False
    """Its server speaks HTTPS."""
    alone_in: str | None = None
    """Suites that share a folder or the cache of a tool name it here: they run one after the other."""

    @property
    def name(self) -> str:
        """The client as the name of a file."""
        return re.sub(r"[^a-z0-9]+", "-", self.client.lower()).strip("-")

    def install(self, run: Run) -> None:
        raise NotImplementedError

    def cases(self, run: Run) -> list[Case]:
        raise NotImplementedError

    def version(self, run: Run) -> str:
        raise NotImplementedError


@dataclass
class PythonSuite(Suite):
    """A separate environment, because each of these needs another botocore."""

    client: str
    package: str
    tests: tuple[str, ...]
    requirements: tuple[str, ...]
    needs_server = False

    @property
    def folder(self) -> Path:
        return CACHE / self.name

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    @property
    def versions(self) -> Path:
        """The file with the versions of everything that is installed, which ``make lock`` writes."""
        return LOCKED / f"{self.name}.txt"

    def install(self, run: Run) -> None:
        if not self.python.exists():
            run([sys.executable, "-m", "venv", self.folder / "venv"], ROOT)
        pip = (self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        locked = ("--constraint", self.versions) if self.versions.exists() else ()
        run([*pip, *locked, "--editable", ".", "pytest>=8.3,<10", *self.requirements], ROOT)

    def cases(self, run: Run) -> list[Case]:
        report = self.folder / "report.xml"
        report.unlink(missing_ok=True)
        pytest = (self.python, "-m", "pytest", "-c", HERE / "pytest.ini", "-p", "no:cacheprovider")
        run([*pytest, f"--junitxml={report}", *(HERE / test for test in self.tests)], ROOT)
        return from_junit([report])

    def version(self, run: Run) -> str:
        program = f"from importlib.metadata import version; print(version({self.package!r}))"
        return run([self.python, "-c", program], ROOT).strip()


class CopiedSuite(Suite):
    """Its sources are copied, so that files written beside them stay out of the repository."""

    sources: str

    @property
    def folder(self) -> Path:
        return CACHE / self.sources

    def copy(self) -> None:
        shutil.copytree(HERE / self.sources, self.folder, dirs_exist_ok=True)


@dataclass
class NodeSuite(CopiedSuite):
    client: str
    file: str
    needs_tls: bool = False
    sources = "javascript"
    alone_in = "npm"
    tools = (Tool("node", ("--version",), (20,)), Tool("npm", ("--version",), (9,)))

    def install(self, run: Run) -> None:
        self.copy()
        run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], self.folder)

    def cases(self, run: Run) -> list[Case]:
        report = self.folder / f"{self.file}.xml"
        report.unlink(missing_ok=True)
        reporter = ("--test-reporter=junit", f"--test-reporter-destination={report}")
        run(["node", "--test", *reporter, self.file], self.folder)
        return from_junit([report])

    def version(self, run: Run) -> str:
        package = self.folder / "node_modules" / self.client / "package.json"
        return str(json.loads(package.read_text())["version"])


@dataclass
class MavenSuite(CopiedSuite):
    client: str
    sources: str
    version_pattern: str
    """Finds the version of the client in pom.xml."""
    example: str | None = None
    """The example of the documents that is tested."""
    tools = (Tool("java", ("-version",), (17,)), Tool("mvn", ("-version",), (3, 6)))
    alone_in = "maven"

    def maven(self, run: Run, goal: str) -> None:
        run(["mvn", "-B", "-q", f"-Dtarget.directory={self.folder / 'target'}", goal], self.folder)

    def install(self, run: Run) -> None:
        if self.example is not None:
            shutil.copytree(ROOT / "docs/examples" / self.example, self.folder, dirs_exist_ok=True)
        self.copy()
        self.maven(run, "test-compile")

    def cases(self, run: Run) -> list[Case]:
        reports = self.folder / "target" / "surefire-reports"
        shutil.rmtree(reports, ignore_errors=True)
        self.maven(run, "test")
        return from_junit(reports.glob("TEST-*.xml"))

    def version(self, run: Run) -> str:
        found = re.search(self.version_pattern, (self.folder / "pom.xml").read_text())
        assert found is not None
        return found[1]


@dataclass
class JavaToolSuite(PythonSuite):
    """A library for Java against our client in Python: pytest runs the library as a command."""

    tools = MavenSuite.tools
    alone_in = "maven"
    sources = CACHE / "java_tools"

    def install(self, run: Run) -> None:
        super().install(run)
        shutil.copytree(HERE / "java_tools", self.sources, dirs_exist_ok=True)
        run(["mvn", "-B", "-q", f"-Dtarget.directory={self.sources / 'target'}", "compile"], self.sources)

    def version(self, run: Run) -> str:
        found = re.search(rf"<{self.package}\.version>(.+?)<", (self.sources / "pom.xml").read_text())
        assert found is not None
        return found[1]


@dataclass
class GoSuite(CopiedSuite):
    client: str
    package: str
    """Where its tests are, below the folder."""
    module: str
    """The one whose version is shown."""
    sources = "go"
    alone_in = "go"
    tools = (Tool("go", ("version",), (1, 24, 4)),)

    def install(self, run: Run) -> None:
        self.copy()
        run(["go", "mod", "tidy"], self.folder)

    def cases(self, run: Run) -> list[Case]:
        return from_go(run(["go", "test", "-json", "-count=1", self.package], self.folder).splitlines())

    def version(self, run: Run) -> str:
        shown = run(["go", "list", "-m", "-f", "{{.Version}}", self.module], self.folder)
        return shown.strip().removeprefix("v")


class RustSuite(CopiedSuite):
    client = "AWS SDK for Rust"
    sources = "rust"
    tools = (Tool("cargo", ("--version",), (1, 85)),)

    def install(self, run: Run) -> None:
        self.copy()
        run(["cargo", "test", "--quiet", "--no-run"], self.folder)

    def cases(self, run: Run) -> list[Case]:
        return from_cargo(
            run(["cargo", "test", "--color", "never", "--test", "sqs"], self.folder).splitlines()
        )

    def version(self, run: Run) -> str:
        packages = tomllib.loads((self.folder / "Cargo.lock").read_text())["package"]
        return next(str(one["version"]) for one in packages if one["name"] == "aws-sdk-sqs")


@dataclass(kw_only=True)
class RecipeSuite(CopiedSuite):
    """A recipe of docs/testing.md for Testcontainers. It is compiled and not run, which takes a container engine."""

    client: str
    sources: str
    tools: tuple[Tool, ...]
    language: str  # of the block on the page
    file: str
    fetch: tuple[str, ...]
    compile: tuple[str, ...]
    versions: tuple[str, str]  # a file, and what its version of Testcontainers looks like
    alone_in: str | None = None
    needs_server = False

    def install(self, run: Run) -> None:
        self.copy()
        (recipe,) = blocks(ROOT / "docs/testing.md", self.language)
        target = self.folder / self.file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(recipe)
        run(self.fetch, self.folder)

    def cases(self, run: Run) -> list[Case]:
        run(self.compile, self.folder)  # how it ended is looked at by the caller
        return [Case(f"{self.file} compiles", True)]

    def version(self, run: Run) -> str:
        file, pattern = self.versions
        found = re.search(pattern, (self.folder / file).read_text())
        assert found is not None
        return found[1]


RECIPES = (
    RecipeSuite(
        client="Testcontainers for Java (recipe)",
        sources="recipes/java",
        tools=MavenSuite.tools,
        alone_in="maven",
        language="java",
        file="src/test/java/OrdersTest.java",
        fetch=("mvn", "-B", "-q", "test-compile", "-Dmaven.test.skip"),
        compile=("mvn", "-B", "-q", "test-compile"),
        versions=(
            "pom.xml", r"org\.testcontainers</groupId>\s*<artifactId>[\w-]+</artifactId>\s*<version>([\d.]+)<",
        ),
    ),
    RecipeSuite(
        client="Testcontainers for Node.js (recipe)",
        sources="recipes/javascript",
        tools=NodeSuite.tools,
        alone_in="npm",
        language="js",
        file="orders.test.js",
        fetch=("npm", "install", "--no-audit", "--no-fund", "--no-package-lock"),
        compile=("npx", "tsc", "--project", "."),
        versions=("node_modules/testcontainers/package.json", r'"version": "([\d.]+)"'),
    ),
    RecipeSuite(
        client="Testcontainers for Go (recipe)",
        sources="recipes/go",
        tools=(Tool("go", ("version",), (1, 25)),),
        language="go",
        file="orders_test.go",
        fetch=("go", "mod", "tidy"),
        compile=("go", "vet", "./..."),
        versions=("go.mod", r"testcontainers-go v([\d.]+)"),
    ),
)  # fmt: skip


def celery_tests(*names: str) -> tuple[str, ...]:
    return tuple(f"celery_app/test_{name}.py" for name in names)


SUITES: tuple[Suite, ...] = (
    PythonSuite("boto3 of 2023 (Query)", "boto3", ("python",), ("boto3==1.28.80", "botocore==1.31.80")),
    PythonSuite("aiobotocore", "aiobotocore", ("aio",), ("aiobotocore>=3.10,<4",)),
    # kombu 5.7.0 ends its worker when a receive fails with 5xx or a reset connection: it takes an empty list for a
    # mapping. Recovery is tested with the version before it, and fan-out, which that does not have, with this one.
    PythonSuite("Celery 5.6", "celery", celery_tests("example", "recovery", "speed", "worker"),
                ("celery[sqs]>=5.6,<5.7", "kombu[sqs]>=5.6,<5.7")),
    PythonSuite("Celery", "celery", celery_tests("example", "fanout", "speed", "worker"), ("celery[sqs]>=5.7,<6",)),
    PythonSuite("FastAPI", "fastapi", ("fastapi_app",), ("fastapi>=0.115,<1", "uvicorn>=0.34,<1", "httpx>=0.28,<1")),
    PythonSuite("Django", "django", ("django_app",), ("django>=5.2,<7",)),
    PythonSuite(
        "Laravel (syntax)", "tree-sitter-php", ("laravel_app",), ("tree-sitter>=0.23", "tree-sitter-php>=0.23")
    ),
    PythonSuite("Validators of messages (Python)", "aws-sns-message-validator", ("validators",),
                ("aws-sns-message-validator>=0.0.5,<1", "django-ses[events]>=4.8,<5", "boto3>=1.42,<2")),
    PythonSuite("dramatiq_sqs", "dramatiq_sqs", ("dramatiq_app",), ("dramatiq>=2,<3", "dramatiq_sqs>=0.4,<1")),
    PythonSuite("amazon-sqs-extended-client", "amazon-sqs-extended-client", ("extended_python",),
                ("amazon-sqs-extended-client>=1.0.1,<2", "boto3>=1.42,<2")),
    JavaToolSuite("amazon-sqs-java-extended-client-lib", "amazon-sqs-java-extended-client-lib", ("extended_java",),
                  ("boto3>=1.42,<2",)),
    JavaToolSuite("amazon-sqs-java-temporary-queues-client", "amazon-sqs-java-temporary-queues-client",
                  ("temporary_queues",), ("boto3>=1.42,<2",)),
    PythonSuite("Dramatiq", "dramatiq", ("adapters/test_dramatiq.py",), ("--editable", ".[dramatiq]")),
    PythonSuite("Orders with moto (example)", "moto", ("moto_app",), ("moto[sqs]>=5,<6", "boto3>=1.42,<2")),
    PythonSuite("Django tasks", "django", ("adapters/test_django.py",), ("--editable", ".[django]")),
    PythonSuite("FastStream", "faststream", ("adapters/test_faststream.py",), ("--editable", ".[faststream]")),
    PythonSuite("taskiq", "taskiq", ("adapters/test_taskiq.py",), ("--editable", ".[taskiq]")),
    NodeSuite("@aws-sdk/client-sqs", "client-sqs.test.js"),
    NodeSuite("@aws-sdk/client-sns", "client-sns.test.js"),
    NodeSuite("sns-validator", "sns-validator.test.js", needs_tls=True),
    NodeSuite("sqs-consumer", "sqs-consumer.test.js"),
    MavenSuite("AWS SDK for Java v2", "java", r"<sdk\.version>(.+?)<"),
    MavenSuite("Spring Cloud AWS", "spring", r"starter-sqs</artifactId>\s*<version>(.+?)<", example="spring"),
    GoSuite("AWS SDK for Go v2", ".", "github.com/aws/aws-sdk-go-v2/service/sqs"),
    GoSuite("Watermill (Go)", "./watermill", "github.com/ThreeDotsLabs/watermill-aws"),
    RustSuite(),
    *RECIPES,
)  # fmt: skip
