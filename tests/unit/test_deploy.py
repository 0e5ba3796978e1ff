"""What is deployed is what was meant: manifests are valid, and hold what the threat model promises."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import orjson
import pytest
import yaml

from sidecar.config import Config, load

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
KUSTOMIZATION = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
RESOURCES = {name: yaml.safe_load((KUBERNETES / name).read_text()) for name in KUSTOMIZATION["resources"]}
STATEFUL_SET = RESOURCES["statefulset.yaml"]["spec"]
POD = STATEFUL_SET["template"]["spec"]
SIDECAR, AGENT = POD["initContainers"][0], POD["containers"][0]
SERVICE = RESOURCES["service.yaml"]["spec"]
INGRESS = RESOURCES["network-policy.yaml"]["spec"]["ingress"]
POLICY = load([KUBERNETES / "policy.yaml"])
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
BUILD, FINAL = re.split(r"(?m)^FROM .*\n", DOCKERFILE)[1:]

# Native sidecars came with 1.29, the preStop sleep with 1.30.
VERSIONS = ("1.30", kubernetes_validate.latest_version())
MARGIN = 5  # seconds of the grace period that are left when all has been waited for (field case 156)


def port(address: str) -> int:
    return int(address.rpartition(":")[2])


def instructions(stage: str, name: str) -> list[str]:
    """The arguments of each instruction `name` of a stage."""
    return re.findall(rf"(?m)^{name}\s+(.*)$", stage)


def test_the_image_is_not_built_with_the_lenient_parser() -> None:
    """aiohttp's parser in Python takes a bare CR in a chunk extension (field case FC-012)."""
    assert "p.HttpRequestParser is p.HttpRequestParserPy" in " ".join(instructions(BUILD, "RUN"))


# --- manifests -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", RESOURCES)
def test_a_manifest_is_what_kubernetes_expects(name: str, version: str) -> None:
    assert kubernetes_validate.validate(RESOURCES[name], version, strict=True) in version


@pytest.mark.parametrize("version", VERSIONS)
def test_the_check_sees_a_misspelt_key(version: str) -> None:
    wrong = copy.deepcopy(RESOURCES["statefulset.yaml"])
    sidecar = wrong["spec"]["template"]["spec"]["initContainers"][0]
    sidecar["restartPolicies"] = sidecar.pop("restartPolicy")
    with pytest.raises(kubernetes_validate.ValidationError, match="restartPolicies"):
        kubernetes_validate.validate(wrong, version, strict=True)


def test_the_kustomization_holds_every_file_and_names_only_images_that_are_used() -> None:
    (generated,) = KUSTOMIZATION["configMapGenerator"]
    listed = {"kustomization.yaml", *KUSTOMIZATION["resources"], *generated["files"]}
    assert {file.name for file in KUBERNETES.iterdir()} == listed
    assert {image["name"] for image in KUSTOMIZATION["images"]} == {SIDECAR["image"], AGENT["image"]}
    assert generated["name"] in {volume.get("configMap", {}).get("name") for volume in POD["volumes"]}


def test_everything_selects_the_same_pod() -> None:
    labels = STATEFUL_SET["template"]["metadata"]["labels"]
    chosen = RESOURCES["network-policy.yaml"]["spec"]["podSelector"]["matchLabels"]
    assert labels == SERVICE["selector"] == chosen == STATEFUL_SET["selector"]["matchLabels"]


# --- the agent can only be reached through the sidecar ---------------------------------------------


def test_the_agent_listens_where_the_policy_says_which_is_loopback() -> None:
    environ = {variable["name"]: variable["value"] for variable in AGENT["env"]}
    assert environ["HOST"] == "127.0.0.1"
    assert [agent.upstream for agent in POLICY.agents] == [f"http://127.0.0.1:{environ['PORT']}"]


def test_the_agent_declares_no_port() -> None:
    assert "ports" not in AGENT


def test_the_service_exposes_the_traffic_port_only() -> None:
    assert [exposed["targetPort"] for exposed in SERVICE["ports"]] == [port(POLICY.listen)]
    assert SERVICE.get("type", "ClusterIP") == "ClusterIP"


def test_the_network_policy_admits_traffic_from_all_and_metrics_from_some() -> None:
    open_to_all = [p["port"] for rule in INGRESS if "from" not in rule for p in rule["ports"]]
    restricted = [p["port"] for rule in INGRESS if rule.get("from") for p in rule["ports"]]
    assert open_to_all == [exposed["targetPort"] for exposed in SERVICE["ports"]]
    assert restricted == [port(POLICY.admin)]
    assert len(INGRESS) == 2
    assert RESOURCES["network-policy.yaml"]["spec"]["policyTypes"] == ["Ingress"]


def test_the_containers_ports_are_the_policys() -> None:
    declared = {p["name"]: p["containerPort"] for p in SIDECAR["ports"]}
    assert declared == {"a2a": port(POLICY.listen), "admin": port(POLICY.admin)}


@pytest.mark.parametrize("key", ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"])
def test_the_pod_shares_nothing_with_its_node(key: str) -> None:
    assert key not in POD
    assert not any("hostPort" in exposed for exposed in SIDECAR["ports"])


# --- start and end ---------------------------------------------------------------------------------


def test_the_sidecar_is_native() -> None:
    assert SIDECAR["restartPolicy"] == "Always"
    assert len(POD["initContainers"]) == 1


@pytest.mark.parametrize(
    ("probe", "path"),
    [
        # Kubernetes starts the agent after this one, and readiness waits for the agent's card.
        pytest.param("startupProbe", "/livez", id="starting does not wait for the agent"),
        pytest.param("livenessProbe", "/livez", id="living depends on nothing else"),
        pytest.param("readinessProbe", "/readyz", id="readiness does"),
    ],
)
def test_probes_ask_the_admin_port(probe: str, path: str) -> None:
    assert SIDECAR[probe]["httpGet"] == {"path": path, "port": port(POLICY.admin)}


def test_probes_can_reach_the_admin_port() -> None:
    assert POLICY.admin.startswith("0.0.0.0:")


def test_the_grace_period_covers_what_is_waited_for() -> None:
    pause = AGENT["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert POD["terminationGracePeriodSeconds"] >= pause + POLICY.limits.drain_timeout + MARGIN


# --- hardening -------------------------------------------------------------------------------------


@pytest.mark.parametrize("container", [SIDECAR, AGENT], ids=lambda container: container["name"])
def test_a_container_is_locked_down(container: dict[str, Any]) -> None:
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_pod_runs_as_the_images_user_without_an_account() -> None:
    (user,) = instructions(FINAL, "USER")
    context = POD["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}" == "65532:65532"
    assert context["fsGroup"] == context["runAsGroup"]
    assert context["runAsNonRoot"] is True
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False


# --- the ledger ------------------------------------------------------------------------------------


def test_the_ledger_outlives_the_pod_and_has_one_writer() -> None:
    assert RESOURCES["statefulset.yaml"]["kind"] == "StatefulSet"
    assert STATEFUL_SET["replicas"] == 1
    (claim,) = STATEFUL_SET["volumeClaimTemplates"]
    mounts = {mount["name"]: mount["mountPath"] for mount in SIDECAR["volumeMounts"]}
    folder = Path(POLICY.ledger.url.removeprefix("sqlite:///")).parent
    assert mounts[claim["metadata"]["name"]] == str(folder)
    assert claim["metadata"]["name"] not in {mount["name"] for mount in AGENT["volumeMounts"]}


def test_nothing_else_the_sidecar_mounts_can_be_written() -> None:
    assert [mount["name"] for mount in SIDECAR["volumeMounts"] if not mount.get("readOnly")] == ["ledger"]


# --- policies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", ["kubernetes/policy.yaml", "policy.local.yaml"])
def test_a_policy_loads_and_enforces(file: str) -> None:
    policy = load([DEPLOY / file])
    modes = {policy.mode, policy.scopes.mode, policy.ownership.mode}
    assert modes == {"enforce"}


def test_callers_without_a_credential_are_refused_in_a_cluster() -> None:
    assert POLICY.identity.anonymous == "refuse"
    assert POLICY.identity.issuers


# --- the image -------------------------------------------------------------------------------------


def test_the_command_is_the_program_itself_with_the_mounted_policy() -> None:
    (entrypoint,), (command,) = instructions(FINAL, "ENTRYPOINT"), instructions(FINAL, "CMD")
    assert orjson.loads(entrypoint) == ["a2a-sidecar"]
    assert orjson.loads(command) == SIDECAR["args"]
    folder = next(mount["mountPath"] for mount in SIDECAR["volumeMounts"] if mount["name"] == "policy")
    assert orjson.loads(command)[-1] == f"{folder}/{KUSTOMIZATION['configMapGenerator'][0]['files'][0]}"


def test_the_final_stage_builds_nothing() -> None:
    assert instructions(FINAL, "RUN") == instructions(FINAL, "ADD") == []
    assert all(copied.startswith("--from=build ") for copied in instructions(FINAL, "COPY"))
    assert instructions(FINAL, "VOLUME") == ['["/data"]']
    assert instructions(FINAL, "HEALTHCHECK") == ["NONE"]


def test_both_stages_have_one_interpreter() -> None:
    build, final = (image.split(" ")[0] for image in instructions(DOCKERFILE, "FROM"))
    assert build == final


def test_the_build_sees_what_it_copies_and_nothing_else() -> None:
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    admitted = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = {name for line in instructions(BUILD, "COPY") for name in line.split()[:-1]}
    assert ignored[0] == "*"
    assert admitted == copied
    assert all((ROOT / name).exists() for name in copied)


def test_no_registry_is_named() -> None:
    images = [*instructions(DOCKERFILE, "FROM"), SIDECAR["image"], AGENT["image"]]
    assert not [image for image in images if "." in image.split("/")[0].split(":")[0] or "/" in image]


# --- trying it locally -----------------------------------------------------------------------------


def test_compose_is_a_pod_in_small() -> None:
    sidecar, agent = COMPOSE["services"]["sidecar"], COMPOSE["services"]["agent"]
    policy = _policy_of(sidecar)
    assert agent["network_mode"] == "service:sidecar"
    assert "ports" not in agent
    environ = agent["environment"]
    assert (
        policy.agents[0].upstream == f"http://{environ['HOST']}:{environ['PORT']}" == "http://127.0.0.1:9000"
    )
    assert policy.agents[0].public_url == "http://" + sidecar["ports"][0].rpartition(":")[0]


def test_compose_publishes_on_loopback_only() -> None:
    policy = _policy_of(COMPOSE["services"]["sidecar"])
    ports = [port(policy.listen), port(policy.admin)]
    assert COMPOSE["services"]["sidecar"]["ports"] == [f"127.0.0.1:{number}:{number}" for number in ports]


@pytest.mark.parametrize("name", ["sidecar", "agent"])
def test_compose_locks_down(name: str) -> None:
    service = COMPOSE["services"][name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_compose_waits_longer_than_the_sidecar_drains() -> None:
    sidecar = COMPOSE["services"]["sidecar"]
    grace = int(sidecar["stop_grace_period"].removesuffix("s"))
    assert grace >= _policy_of(sidecar).limits.drain_timeout + MARGIN


def _policy_of(service: dict[str, Any]) -> Config:
    source = next(volume.split(":")[0] for volume in service["volumes"] if "policy" in volume)
    return load([DEPLOY / source])
