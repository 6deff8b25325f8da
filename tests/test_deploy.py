"""The files in deploy/ are what the program understands: settings, ports, probes, names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.server.settings.config import Config
from penstock.server.settings.load import load_config

DEPLOY = Path(__file__).parent.parent / "deploy"
MANIFESTS: list[dict[str, Any]] = [
    manifest
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
    for manifest in yaml.safe_load_all(file.read_text())
]
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
NODES = {name: service for name, service in COMPOSE["services"].items() if name.startswith("node-")}


def manifest(kind: str, name: str) -> dict[str, Any]:
    (found,) = [each for each in MANIFESTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found


def configured(environment: Mapping[str, str], secret: Path) -> Config:
    """As the server reads it; files of the container are not there."""
    secret.write_text("0" * 64)
    secret.chmod(0o600)
    return load_config({}, {**environment, "PENSTOCK_CLUSTER_SECRET_FILE": str(secret)})


# -- Kubernetes ----------------------------------------------------------------------------------------------


def pod() -> dict[str, Any]:
    spec: dict[str, Any] = manifest("StatefulSet", "penstock")["spec"]["template"]["spec"]
    return spec


def container() -> dict[str, Any]:
    (found,) = pod()["containers"]
    assert isinstance(found, dict)
    return found


def environment(pod_name: str) -> dict[str, str]:
    secrets = {("penstock-database", "url"): "postgresql://penstock:secret@db/penstock"}
    values = {}
    for each in container()["env"]:
        source = each.get("valueFrom", {})
        if "secretKeyRef" in source:
            values[each["name"]] = secrets[source["secretKeyRef"]["name"], source["secretKeyRef"]["key"]]
        elif "fieldRef" in source:
            assert source["fieldRef"]["fieldPath"] == "metadata.name"
            values[each["name"]] = pod_name
        else:
            values[each["name"]] = each["value"].replace("$(POD_NAME)", pod_name)
    return values


def test_the_pods_start_as_nodes_of_one_cluster(tmp_path: Path) -> None:
    nodes = manifest("Service", "penstock-nodes")["spec"]
    stateful = manifest("StatefulSet", "penstock")["spec"]
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    configs = [configured(environment(f"penstock-{i}"), tmp_path / "secret") for i in range(3)]
    for i, config in enumerate(configs):
        assert config.advertise is not None
        # The name that the headless service gives a pod.
        assert str(config.advertise) == f"penstock-{i}.{stateful['serviceName']}:{ports['cluster']}"
        assert [address.port for address in config.addresses] == [ports["sqs"]]
        assert config.store is not None and config.store.startswith("postgresql://")
    assert stateful["serviceName"] == "penstock-nodes"
    assert nodes["clusterIP"] == "None" and nodes["publishNotReadyAddresses"] is True
    assert [port["port"] for port in nodes["ports"]] == [ports["cluster"]]
    assert [port["port"] for port in manifest("Service", "penstock")["spec"]["ports"]] == [ports["sqs"]]


def test_selectors_name_the_pods() -> None:
    stateful = manifest("StatefulSet", "penstock")["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    assert manifest("PodDisruptionBudget", "penstock")["spec"]["selector"]["matchLabels"] == labels
    for service in ("penstock", "penstock-nodes"):
        assert manifest("Service", service)["spec"]["selector"] == labels


def test_files_are_mounted_where_the_settings_name_them() -> None:
    values = environment("penstock-0")
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in container()["volumeMounts"]}
    assert Path(values["PENSTOCK_CLUSTER_SECRET_FILE"]).parent == mounts["cluster"]
    assert Path(values["PENSTOCK_DATA"]).is_relative_to(mounts["data"])
    (volume,) = pod()["volumes"]
    assert volume["secret"]["defaultMode"] & 0o007 == 0, "a file that everyone may read is refused"


def test_the_pod_runs_as_the_user_of_the_image() -> None:
    assert f"--uid {pod()['securityContext']['runAsUser']} " in DOCKERFILE
    assert container()["image"] == NODES["node-1"]["image"]


def test_a_pod_has_time_to_hand_its_shards_over(tmp_path: Path) -> None:
    config = configured(environment("penstock-0"), tmp_path / "secret")
    assert pod()["terminationGracePeriodSeconds"] >= config.stop_timeout + 30


@pytest.mark.parametrize(
    ("probe", "path"),
    [
        ("readinessProbe", "/health/ready"),
        ("livenessProbe", "/health/live"),
        ("startupProbe", "/health/live"),
    ],
)
def test_probes(probe: str, path: str) -> None:
    asked = container()[probe]["httpGet"]
    assert asked == {"path": path, "port": "sqs"}


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
    assert f"--uid {secret['uid']} " in DOCKERFILE
    build = service["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).resolve() == DEPLOY / "Dockerfile"
    assert [volume.partition(":")[2] for volume in service["volumes"]] == [str(config.data)]


def test_the_compose_file_is_complete() -> None:
    services = COMPOSE["services"]
    volumes = {volume.partition(":")[0] for each in services.values() for volume in each.get("volumes", ())}
    assert volumes == set(COMPOSE["volumes"])
    used = {secret["source"] for each in services.values() for secret in each.get("secrets", ())}
    assert used == set(COMPOSE["secrets"])
    set_by_reader = set(re.findall(r"([A-Z_]+)=%s", (DEPLOY.parent / "docs/scaling.md").read_text()))
    named = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert set_by_reader == named | {each["environment"] for each in COMPOSE["secrets"].values()}
    balancer = COMPOSE["configs"]["balancer"]["content"]
    assert all(f"server {name} {name}:9324" in balancer for name in NODES)
    assert "GET /health/ready" in balancer
    assert services["balancer"]["ports"] == ["127.0.0.1:9324:9324"], "it has no credentials"
