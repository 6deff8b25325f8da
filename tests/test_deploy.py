"""The files for Kubernetes and Compose in deploy/ are what the program understands: settings, ports, probes, names.

`make test-deploy` checks them with the linters of their formats, too.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.server.settings.config import Config
from penstock.server.settings.load import load_config
from support.documents import ROOT, blocks
from test_image import USER, VOLUME

DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
NODES = {name: service for name, service in COMPOSE["services"].items() if name.startswith("node-")}
SECRETS = {("penstock-database", "url"): "postgresql://penstock:secret@db/penstock"}


def configured(environment: Mapping[str, str], secret: Path) -> Config:
    """Reads the settings as the server does; files of the container are not there."""
    secret.write_text("0" * 64)
    secret.chmod(0o600)
    if "PENSTOCK_CLUSTER_SECRET_FILE" in environment:
        environment = {**environment, "PENSTOCK_CLUSTER_SECRET_FILE": str(secret)}
    return load_config({}, environment)


# -- Kubernetes ----------------------------------------------------------------------------------------------


class Kubernetes:
    """The manifests of one folder."""

    def __init__(self, name: str) -> None:
        self.folder = DEPLOY / "kubernetes" / name
        kustomization = yaml.safe_load((self.folder / "kustomization.yaml").read_text())
        self.files = set(kustomization["resources"])
        self._manifests = [
            each for file in self.files for each in yaml.safe_load_all((self.folder / file).read_text())
        ]

    def find(self, kind: str, name: str = "penstock") -> dict[str, Any]:
        (found,) = (
            each for each in self._manifests if (each["kind"], each["metadata"]["name"]) == (kind, name)
        )
        assert isinstance(found, dict)
        spec: dict[str, Any] = found["spec"]
        return spec

    @property
    def pod(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.find("StatefulSet")["template"]["spec"]
        return spec

    @property
    def container(self) -> dict[str, Any]:
        (found,) = self.pod["containers"]
        assert isinstance(found, dict)
        return found

    @property
    def ports(self) -> dict[str, int]:
        return {port["name"]: port["containerPort"] for port in self.container["ports"]}

    def environment(self, pod_name: str) -> dict[str, str]:
        values = {}
        for each in self.container["env"]:
            source = each.get("valueFrom", {})
            if "secretKeyRef" in source:
                values[each["name"]] = SECRETS[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
            elif "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.name"
                values[each["name"]] = pod_name
            else:
                values[each["name"]] = each["value"].replace("$(POD_NAME)", pod_name)
        return values


SINGLE, CLUSTER = Kubernetes("single"), Kubernetes("cluster")
both = pytest.mark.parametrize("kubernetes", [SINGLE, CLUSTER], ids=lambda each: each.folder.name)


def test_the_pods_start_as_nodes_of_one_cluster(tmp_path: Path) -> None:
    nodes, stateful, ports = (
        CLUSTER.find("Service", "penstock-nodes"),
        CLUSTER.find("StatefulSet"),
        CLUSTER.ports,
    )
    configs = [configured(CLUSTER.environment(f"penstock-{i}"), tmp_path / "secret") for i in range(3)]
    for i, config in enumerate(configs):
        assert config.advertise is not None
        # The name that the headless service gives a pod.
        assert str(config.advertise) == f"penstock-{i}.{stateful['serviceName']}:{ports['cluster']}"
        assert config.store is not None and config.store.startswith("postgresql://")
    assert stateful["serviceName"] == "penstock-nodes"
    assert nodes["clusterIP"] == "None" and nodes["publishNotReadyAddresses"] is True
    assert [port["port"] for port in nodes["ports"]] == [ports["cluster"]]
    clients, others = CLUSTER.find("NetworkPolicy")["ingress"]
    assert [port["port"] for rule in (clients, others) for port in rule["ports"]] == [
        ports["sqs"],
        ports["cluster"],
    ]
    assert "from" not in clients and len(others["from"]) == 1


def test_the_cluster_secret_is_mounted_where_the_settings_name_it() -> None:
    values = CLUSTER.environment("penstock-0")
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in CLUSTER.container["volumeMounts"]}
    assert Path(values["PENSTOCK_CLUSTER_SECRET_FILE"]).parent == mounts["cluster"]
    (volume,) = CLUSTER.pod["volumes"]
    assert volume["secret"]["defaultMode"] & 0o007 == 0, "a file that everyone may read is refused"


@both
def test_every_manifest_is_listed(kubernetes: Kubernetes) -> None:
    assert {file.name for file in kubernetes.folder.iterdir()} == {"kustomization.yaml", *kubernetes.files}


@both
def test_selectors_name_the_pods(kubernetes: Kubernetes) -> None:
    stateful = kubernetes.find("StatefulSet")
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    selectors = re.findall(r"(?:matchLabels|selector): (\{ app: .*? \})", "".join(
        (kubernetes.folder / file).read_text() for file in kubernetes.files
    ))  # fmt: skip
    assert len(selectors) >= 2 and all(yaml.safe_load(each) == labels for each in selectors)


@both
def test_a_pod_listens_where_the_service_sends(kubernetes: Kubernetes, tmp_path: Path) -> None:
    config = configured(kubernetes.environment("penstock-0"), tmp_path / "secret")
    assert [address.port for address in config.addresses] == [kubernetes.ports["sqs"]]
    assert [port["port"] for port in kubernetes.find("Service")["ports"]] == [kubernetes.ports["sqs"]]


@both
def test_the_data_are_on_the_volume(kubernetes: Kubernetes, tmp_path: Path) -> None:
    config = configured(kubernetes.environment("penstock-0"), tmp_path / "secret")
    mounts = {mount["name"]: mount["mountPath"] for mount in kubernetes.container["volumeMounts"]}
    (claim,) = kubernetes.find("StatefulSet")["volumeClaimTemplates"]
    assert mounts[claim["metadata"]["name"]] == VOLUME
    assert config.data.is_relative_to(VOLUME)


@both
def test_the_pod_runs_as_the_user_of_the_image(kubernetes: Kubernetes) -> None:
    assert str(kubernetes.pod["securityContext"]["runAsUser"]) == USER
    assert kubernetes.container["image"] == NODES["node-1"]["image"]
    assert kubernetes.container["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_pod_has_time_to_stop(tmp_path: Path) -> None:
    for kubernetes, handing_over_s in ((SINGLE, 0), (CLUSTER, 30)):
        config = configured(kubernetes.environment("penstock-0"), tmp_path / "secret")
        assert kubernetes.pod["terminationGracePeriodSeconds"] > config.stop_timeout + handing_over_s


@both
@pytest.mark.parametrize(
    ("probe", "path"),
    [
        ("readinessProbe", "/health/ready"),
        ("livenessProbe", "/health/live"),
        ("startupProbe", "/health/live"),
    ],
)
def test_probes(kubernetes: Kubernetes, probe: str, path: str) -> None:
    asked = kubernetes.container[probe]["httpGet"]
    assert asked == {"path": path, "port": "sqs"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
@pytest.mark.parametrize(("document", "base"), [("running", "single"), ("scaling", "cluster")])
def test_the_documented_kustomization_names_the_image(document: str, base: str, tmp_path: Path) -> None:
    """The script runs like that of a reader who pastes it into a directory beside deploy/."""
    (script,) = (each for each in blocks(ROOT / f"docs/{document}.md", "sh") if "kustomization.yaml" in each)
    create = script[script.index("mkdir") : script.index("kubectl")]
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    subprocess.run(["bash", "-eu"], input=create, text=True, cwd=tmp_path, check=True)
    done = subprocess.run(
        ["kubectl", "kustomize", tmp_path / "my-queues"], capture_output=True, text=True, check=True
    )
    kinds = {each["kind"]: each for each in yaml.safe_load_all(done.stdout)}
    assert kinds.keys() >= {"Service", "StatefulSet"}
    (container,) = kinds["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert re.fullmatch(r"registry\.example\.com/penstock:\d+\.\d+\.\d+", container["image"])
    assert f"../deploy/kubernetes/{base}" in create


# -- Compose -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NODES)
def test_a_node_of_the_compose_file(name: str, tmp_path: Path) -> None:
    service = NODES[name]
    config = configured(service["environment"], tmp_path / "secret")
    assert config.advertise is not None and config.advertise.host == name
    assert config.store is not None and "@database/" in config.store
    (secret,) = service["secrets"]
    assert service["environment"]["PENSTOCK_CLUSTER_SECRET_FILE"] == f"/run/secrets/{secret['target']}"
    assert secret["mode"] & 0o077 == 0, "a file that everyone may read is refused"
    assert secret["uid"] == USER
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert [volume.partition(":")[2] for volume in service["volumes"]] == [str(config.data)]


def test_the_compose_file_is_complete() -> None:
    services = COMPOSE["services"]
    volumes = {volume.partition(":")[0] for each in services.values() for volume in each.get("volumes", ())}
    assert volumes == set(COMPOSE["volumes"])
    used = {secret["source"] for each in services.values() for secret in each.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])
    set_by_reader = set(re.findall(r"([A-Z_]+)=%s", (ROOT / "docs/scaling.md").read_text()))
    named = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert set_by_reader == named | {each["environment"] for each in COMPOSE["secrets"].values()}
    balancer = COMPOSE["configs"]["balancer"]["content"]
    assert all(f"server {name} {name}:9324" in balancer for name in NODES)
    assert "GET /health/ready" in balancer
    assert services["balancer"]["ports"] == ["127.0.0.1:9324:9324"], "it has no credentials"
