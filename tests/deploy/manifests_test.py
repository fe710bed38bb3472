#!/usr/bin/env python3
"""What deploy/kubernetes renders to: right for Kubernetes, right for lockstepd, and safe for the log.

  manifests_test.py KUSTOMIZE LOCKSTEPD    in the environment of requirements.txt
"""

from __future__ import annotations

import copy
import functools
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Iterator

import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "deploy" / "kubernetes"
OVERLAYS = ("base", "overlays/example", "overlays/sidecar")
# From the first whose sidecars start before the application.
KUBERNETES = ("1.29", "1.31", "1.33", "1.35", "1.37")
# By whoever applies an overlay, as its kustomization.yaml says.
SECRETS_MADE_ELSEWHERE = ("lockstep-secrets",)
KUSTOMIZE = LOCKSTEPD = ""
Manifest = dict[str, Any]


@functools.cache
def text_of(overlay: str) -> str:
    return subprocess.run([KUSTOMIZE, "build", MANIFESTS / overlay], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def rendered(overlay: str) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(text_of(overlay)) if document]


def of_kind(overlay: str, kind: str) -> list[Manifest]:
    return [one for one in rendered(overlay) if one["kind"] == kind]


def pod_of(overlay: str) -> Manifest:
    (stateful,) = of_kind(overlay, "StatefulSet")
    return stateful["spec"]["template"]["spec"]


def containers(pod: Manifest) -> list[Manifest]:
    return pod.get("initContainers", []) + pod["containers"]


def lockstepd_of(overlay: str) -> Manifest:
    (one,) = [c for c in containers(pod_of(overlay)) if c["name"] == "lockstepd"]
    return one


def closed(schema: Any) -> Any:
    """The schema, with every field that it does not know refused, as kubectl's strict validation does."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    out = {key: closed(value) for key, value in schema.items()}
    if "properties" in schema and "additionalProperties" not in schema:
        out["additionalProperties"] = False
    return out


@functools.cache
def custom_schemas() -> dict[tuple[str, str], Any]:
    """By apiVersion and kind: what tests/deploy/schemas has."""
    schemas = {}
    for path in (Path(__file__).parent / "schemas").glob("*.yaml"):
        definition = yaml.safe_load(path.read_text(encoding="utf-8"))["spec"]
        for version in definition["versions"]:
            schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {"type": "object", "additionalProperties": True}
            schemas[f"{definition['group']}/{version['name']}",
                    definition["names"]["kind"]] = closed(schema)
    return schemas


def problem(manifest: Manifest, version: str) -> str | None:
    """What that Kubernetes would refuse or warn of, if anything."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}, Kubernetes {version}: "
    custom = custom_schemas().get((manifest["apiVersion"], manifest["kind"]))
    try:
        if custom:
            jsonschema.validate(manifest, custom)
        else:
            kubernetes_validate.validate(manifest, version, strict=True)
    except (jsonschema.ValidationError, kubernetes_validate.ValidationError) as error:
        return f"{name}{'.'.join(str(part) for part in error.path)}: {error.message}"
    except kubernetes_validate.SchemaNotFoundError as error:
        return f"{name}{error.message}"
    return None


def make_certificates(folder: Path) -> None:
    """What the example's Secret has."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-subj", "/CN=lockstep", "-keyout", folder / "tls.key",
                    "-out", folder / "tls.crt"], check=True, capture_output=True)
    (folder / "clients-ca.crt").write_bytes((folder / "tls.crt").read_bytes())


class Schemas(unittest.TestCase):
    def test_every_manifest_in_every_version(self) -> None:
        for overlay in OVERLAYS:
            self.assertTrue(rendered(overlay))
            for version in KUBERNETES:
                for manifest in rendered(overlay):
                    self.assertIsNone(problem(manifest, version), overlay)

    def test_what_is_wrong_is_found(self) -> None:
        (stateful,) = of_kind("base", "StatefulSet")
        pod = stateful["spec"]["template"]["spec"]
        pod["containers"][0]["livenessProb"] = {}
        self.assertIn("livenessProb", problem(stateful, "1.33") or "")
        (service, _) = of_kind("base", "Service")
        service["spec"]["ports"][0]["port"] = "grpc"
        self.assertIn("spec.ports.0.port", problem(service, "1.33") or "")
        self.assertIn("Couldn't find schema",
                      problem({"apiVersion": "apps/v1", "kind": "StatefulSets",
                               "metadata": {"name": "x"}}, "1.33") or "")
        monitor = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor",
                   "metadata": {"name": "x"},
                   "spec": {"selector": {}, "endpoints": [{"prot": "metrics"}]}}
        self.assertIn("'prot' was unexpected", problem(monitor, "1.33") or "")


class References(unittest.TestCase):
    """What one manifest says of another is there."""

    def labels(self, overlay: str) -> Manifest:
        return of_kind(overlay, "StatefulSet")[0]["spec"]["template"]["metadata"]["labels"]

    def ports(self, overlay: str) -> set[str]:
        return {port["name"] for c in containers(pod_of(overlay)) for port in c.get("ports", [])}

    def selectors(self, overlay: str) -> Iterator[Manifest]:
        for one in rendered(overlay):
            match one["kind"]:
                case "Service":
                    yield one["spec"]["selector"]
                case "PodDisruptionBudget" | "StatefulSet":
                    yield one["spec"]["selector"]["matchLabels"]
                case "NetworkPolicy":
                    yield one["spec"]["podSelector"]["matchLabels"]
        for spread in pod_of(overlay)["topologySpreadConstraints"]:
            yield spread["labelSelector"]["matchLabels"]

    def test_selectors_select_the_pods(self) -> None:
        for overlay in OVERLAYS:
            for selector in self.selectors(overlay):
                self.assertTrue(selector)
                self.assertLessEqual(selector.items(), self.labels(overlay).items(), overlay)

    def test_an_application_is_let_in_by_one_label(self) -> None:
        for overlay in ("base", "overlays/example"):
            (policy,) = of_kind(overlay, "NetworkPolicy")
            self.assertEqual(policy["spec"]["ingress"][0]["from"],
                             [{"podSelector": {"matchLabels": {"uses-lockstep": "true"}}}])

    def test_ports_and_sources_exist(self) -> None:
        for overlay in OVERLAYS:
            names = {(one["kind"], one["metadata"]["name"]) for one in rendered(overlay)}
            for volume in pod_of(overlay)["volumes"]:
                if "configMap" in volume:
                    self.assertIn(("ConfigMap", volume["configMap"]["name"]), names)
                if "secret" in volume and volume["secret"]["secretName"] not in SECRETS_MADE_ELSEWHERE:
                    self.assertIn(("Secret", volume["secret"]["secretName"]), names)
            self.assertIn(("Service", of_kind(overlay, "StatefulSet")[0]["spec"]["serviceName"]), names)
        for overlay in ("base", "overlays/example"):
            for service in of_kind(overlay, "Service"):
                for port in service["spec"]["ports"]:
                    self.assertIn(port["targetPort"], self.ports(overlay))
            probes = [value["httpGet"] for key, value in lockstepd_of(overlay).items()
                      if key.endswith("Probe")]
            self.assertEqual(len(probes), 3)
            for probe in probes:
                self.assertIn(probe["port"], self.ports(overlay))
            for policy in of_kind(overlay, "NetworkPolicy"):
                for rule in policy["spec"]["ingress"]:
                    for port in rule["ports"]:
                        self.assertIn(port["port"], self.ports(overlay))


    def test_lockstepd_listens_where_they_say(self) -> None:
        for overlay in ("base", "overlays/example"):
            (config,) = of_kind(overlay, "ConfigMap")
            settings = yaml.safe_load(config["data"]["lockstepd.yaml"])
            ports = {port["name"]: port["containerPort"] for port in lockstepd_of(overlay)["ports"]}
            for name, listen in (("grpc", settings["listen"]), ("metrics", settings["metrics"]["listen"])):
                self.assertEqual(listen, f"0.0.0.0:{ports[name]}")

    def test_prometheus_scrapes_a_port_of_a_service(self) -> None:
        (monitor,) = of_kind("overlays/example", "ServiceMonitor")
        wanted = monitor["spec"]["selector"]["matchLabels"]
        (service,) = [one for one in of_kind("overlays/example", "Service")
                      if wanted.items() <= one["metadata"]["labels"].items()]
        names = {port["name"] for port in service["spec"]["ports"]}
        self.assertLessEqual({endpoint["port"] for endpoint in monitor["spec"]["endpoints"]}, names)


class TheLog(unittest.TestCase):
    def test_it_is_on_a_claim_that_is_kept(self) -> None:
        for overlay in OVERLAYS:
            spec = of_kind(overlay, "StatefulSet")[0]["spec"]
            claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
            mounts = {m["mountPath"]: m["name"] for m in lockstepd_of(overlay)["volumeMounts"]}
            self.assertIn(mounts["/var/lib/lockstep"], claims)
            self.assertEqual(set(spec["persistentVolumeClaimRetentionPolicy"].values()), {"Retain"})
            for claim in spec["volumeClaimTemplates"]:
                self.assertEqual(claim["spec"]["accessModes"], ["ReadWriteOncePod"])
            for volume in pod_of(overlay)["volumes"]:
                self.assertNotIn("emptyDir", volume)
        for overlay in ("base", "overlays/example"):
            self.assertEqual(of_kind(overlay, "StatefulSet")[0]["spec"]["replicas"], 1)

    def test_lockstepd_takes_the_configuration(self) -> None:
        for overlay in OVERLAYS:
            (config,) = of_kind(overlay, "ConfigMap")
            with tempfile.TemporaryDirectory() as folder:
                make_certificates(Path(folder))
                for name, text in config["data"].items():
                    text = re.sub("/etc/lockstep(-secrets)?/", folder + "/", text)
                    (Path(folder) / name).write_text(text, encoding="utf-8")
                done = subprocess.run([LOCKSTEPD, "--config", f"{folder}/lockstepd.yaml",
                                       "--check-config"],
                                      capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            settings = yaml.safe_load(config["data"]["lockstepd.yaml"])
            self.assertTrue(settings["data_dir"].startswith("/var/lib/lockstep/"))

    def test_with_a_policy_prestop_comes_in(self) -> None:
        overlay = "overlays/example"
        (config,) = of_kind(overlay, "ConfigMap")
        settings = yaml.safe_load(config["data"]["lockstepd.yaml"])
        env = {one["name"]: one["value"] for one in lockstepd_of(overlay)["env"]}
        self.assertEqual(env["LOCKSTEP_SERVER"], settings["admin_listen"])
        token = Path(env["LOCKSTEP_TOKEN_FILE"])
        self.assertEqual(token.parent, Path(settings["tls"]["key_file"]).parent)
        self.assertIn(token.name, (MANIFESTS / overlay / "kustomization.yaml").read_text(encoding="utf-8"))

    def test_there_is_time_to_end(self) -> None:
        defaults = subprocess.run([LOCKSTEPD, "--print-defaults"], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout
        shutdown = re.search(r"^  shutdown: (\d+)s", defaults, re.MULTILINE)
        self.assertIsNotNone(shutdown)
        for overlay in OVERLAYS:
            needed = int(shutdown[1])
            hook = lockstepd_of(overlay).get("lifecycle", {}).get("preStop")
            if hook:
                words = hook["exec"]["command"]
                self.assertEqual((words[0], words[2:]), ("timeout", ["lockstepctl", "drain", "--wait"]))
                needed += int(words[1])
            # And what lockstepd takes after timeouts.shutdown, at most (server/lockstepd.cc).
            self.assertGreater(pod_of(overlay)["terminationGracePeriodSeconds"], needed + 10)


class Restricted(unittest.TestCase):
    """Kubernetes' Pod Security Standard `restricted`, and what it leaves open."""

    def test_pods(self) -> None:
        for overlay in OVERLAYS:
            pod = pod_of(overlay)
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertIs(pod["automountServiceAccountToken"], False)
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                self.assertNotIn(field, pod)
            for container in containers(pod):
                context = container["securityContext"]
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertIs(context["readOnlyRootFilesystem"], True)
                self.assertEqual(context["capabilities"], {"drop": ["ALL"]})

    def test_images_have_a_version(self) -> None:
        for overlay in ("overlays/example", "overlays/sidecar"):
            for container in containers(pod_of(overlay)):
                self.assertRegex(container["image"], r":\d+\.\d+\.\d+$|@sha256:")


if __name__ == "__main__":
    LOCKSTEPD = sys.argv.pop(2)
    KUSTOMIZE = sys.argv.pop(1)
    unittest.main(argv=sys.argv, verbosity=1)
