"""A real API server of Kubernetes, and a kubelet that runs pods as processes, for tests."""

import base64
import json
import os
import re
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pyspark
import pytest

from support.accounts.reports import Command
from support.containers import IMAGE, USER, container_words
from support.paths import ROOT
from support.ports import free_port
from support.waiting import wait_until

BINARIES = Path(os.environ.get("KUBERNETES_BINARIES", "/nowhere"))
"""A folder with `helm`, `etcd` and `kube-apiserver`, which are built from their Go modules."""
PODS = "/api/v1/namespaces/default/pods"
_SECONDS = 0.1
_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}


class ApiServer:
    """An API server with RBAC, without nodes; its files lie in `folder`. Skips where there is no binary."""

    def __init__(self, folder):
        for name in ("etcd", "kube-apiserver"):
            if not (BINARIES / name).exists():
                pytest.skip(f"there is no {name}; name a folder with it in KUBERNETES_BINARIES")
        self._folder, self._port, self._started = folder, free_port(), []
        self._trusting = ssl.create_default_context()
        self._trusting.check_hostname, self._trusting.verify_mode = False, ssl.CERT_NONE

    @property
    def url(self):
        return f"https://127.0.0.1:{self._port}"

    def __enter__(self):
        for words in (etcd := self._etcd(), self._server(etcd[4])):
            log = self._folder / f"{words[0].name}.log"
            with log.open("wb") as out:
                self._started.append(Command(words, log=log, stdout=out, stderr=out, cwd=self._folder))
        wait_until(lambda: self.ask("/readyz")[0] == 200, "the API server")
        wait_until(lambda: self.ask("/api/v1/namespaces/default")[0] == 200, "its first namespace")
        return self

    def __exit__(self, *_):
        for one in reversed(self._started):
            one.clean()

    def _etcd(self):
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        words = [BINARIES / "etcd", "--data-dir", self._folder / "etcd", "--listen-client-urls", client]
        words += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
        return [*words, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]

    def _server(self, etcd):
        folder = self._folder
        tokens, key, policy = folder / "tokens.csv", folder / "sa.key", folder / "audit.json"
        tokens.write_text("tok,admin,admin,system:masters\n")
        policy.write_text(json.dumps(_POLICY))
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        words = [BINARIES / "kube-apiserver", f"--etcd-servers={etcd}", f"--secure-port={self._port}"]
        words += ["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"]
        words += [f"--cert-dir={folder / 'certs'}", f"--token-auth-file={tokens}"]
        words += ["--authorization-mode=RBAC", "--service-account-issuer=https://x"]
        words += [f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"]
        words += ["--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.96.0.0/24"]
        words += [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}"]
        return [*words, "--disable-admission-plugins=ServiceAccount"]

    def ask(self, path, body=None, method=None, kind="application/json"):
        """The status and the text of an answer to the administrator; 0 where there is none."""
        headers = {"authorization": "Bearer tok", "content-type": kind}
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(f"{self.url}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(asked, context=self._trusting, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def create(self, one, query=""):
        """Ask it to make an object in the namespace `default`; the status and the text of the answer."""
        group = one["apiVersion"]
        root = f"/apis/{group}" if "/" in group else f"/api/{group}"
        return self.ask(f"{root}/namespaces/default/{one['kind'].lower()}s{query}", one)

    def token_of(self, account):
        """A token of a service account, which the server signs."""
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        return json.loads(self.ask(path, request)[1])["status"]["token"]

    def asked_by(self, account):
        """What a service account has asked for: triples of resource, verb and status, as audited."""
        lines = (self._folder / "audit.log").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        user = f"system:serviceaccount:default:{account}"
        return {
            (one["objectRef"]["resource"], one["verb"], one["responseStatus"]["code"])
            for one in found
            if one["user"]["username"] == user and "responseStatus" in one and "objectRef" in one
        }

    def pods(self, selector="?labelSelector=spark-role%3Dexecutor"):
        """The executors' pods, or those of a selector; None if it does not answer."""
        status, text = self.ask(f"{PODS}{selector}")
        return json.loads(text)["items"] if status == 200 else None

    def found(self, kind, name):
        """An object of the namespace `default`; None if it is not there."""
        status, text = self.ask(f"/api/v1/namespaces/default/{kind}/{name}")
        return json.loads(text) if status == 200 else None

    @property
    def certificate(self):
        """The file of its certificate."""
        return self._folder / "certs" / "apiserver.crt"


class Kubelet(threading.Thread):
    """Runs the pod of each executor as a process, by the entry point of the image.

    `processes` are those by name of the pod. A pod that is deleted is sent SIGTERM, as a kubelet does.
    """

    def __init__(self, server, folder):
        super().__init__(daemon=True)
        self._server, self._folder, self._ends = server, folder, threading.Event()
        self.processes, self._ended = {}, set()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._ends.set()
        self.join()
        for one in self.processes.values():
            one.clean()

    def run(self):
        while not self._ends.wait(_SECONDS):
            if (pods := self._pods()) is None:
                continue
            there = {pod["metadata"]["name"]: pod for pod in pods}
            for name, pod in there.items():
                if name not in self.processes:
                    self._start(name, pod)
            for name, process in self.processes.items():
                if name in self._ended:
                    continue
                if (code := process.poll()) is not None:
                    self._ended.add(name)
                    self._say(name, there.get(name), code)
                elif name not in there:
                    self._ended.add(name)
                    process.terminate()

    def _pods(self):
        return self._server.pods()

    def _start(self, name, pod):
        container = pod["spec"]["containers"][0]
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        environment = dict(os.environ)
        for one in container["env"]:
            field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            environment[one["name"]] = fields[field] if field else one.get("value", "")
        environment["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
        log = self._folder / f"{name}.log"
        words = [ROOT / "deploy" / "entrypoint.sh", *container["args"]]
        with log.open("wb") as out:
            self.processes[name] = Command(
                words, log=log, stdout=out, stderr=out, cwd=self._folder, env=environment
            )
        self._say(name, pod)

    def _say(self, name, pod, code=None):
        """Write a pod's status: that it runs, or with a `code` how it has ended."""
        if pod is None:
            return
        state = (
            {"running": {}}
            if code is None
            else {"terminated": {"exitCode": code if code >= 0 else 128 - code}}
        )
        container = {"name": pod["spec"]["containers"][0]["name"], "ready": code is None, "state": state}
        container |= {"image": "i", "imageID": "i", "restartCount": 0}
        phase = "Running" if code is None else "Failed" if code else "Succeeded"
        status = {"phase": phase, "podIP": "127.0.0.1", "containerStatuses": [container]}
        self._server.ask(f"{PODS}/{name}/status", {"status": status}, "PATCH", "application/merge-patch+json")


class ContainerKubelet(Kubelet):
    """Runs all pods, each with a root, volumes, variables and a user as its manifest says.

    `claims`: a folder for the name of each claim; a folder is the user's of the image. A pod whose secret or
    config map is not there yet waits. Names of services lead to this machine.
    """

    def __init__(self, server, folder, claims=None):
        super().__init__(server, folder)
        self._claims, self._hosts = claims or {}, folder / "hosts"
        self._hosts.write_text(Path("/etc/hosts").read_text())

    def _pods(self):
        return self._server.pods("")

    def _start(self, name, pod):
        self._name_services()
        place = self._folder / "pods" / name
        spec, (container,) = pod["spec"], pod["spec"]["containers"]
        volumes = {one["name"]: self._volume(place, one) for one in spec.get("volumes", ())}
        if None in volumes.values():
            return
        fixed = {one["name"] for one in spec.get("volumes", ()) if {"configMap", "secret"} & one.keys()}
        root = place / "root"
        root.mkdir(parents=True, exist_ok=True)
        mounts = [("ro", self._hosts, "/etc/hosts")]
        for one in container.get("volumeMounts", ()):
            source = volumes[one["name"]]
            inside = source / one["subPath"] if "subPath" in one else source
            is_fixed = one.get("readOnly") or one["name"] in fixed
            mounts.append(("ro" if is_fixed else "rw", inside, one["mountPath"]))
        if spec.get("automountServiceAccountToken", True) and (account := spec.get("serviceAccountName")):
            mounts.append(
                ("ro", self._account(place, account), "/var/run/secrets/kubernetes.io/serviceaccount")
            )
        rights = {**spec.get("securityContext", {}), **container.get("securityContext", {})}
        environment = self._environment(name, container)
        args = [re.sub(r"\$\((\w+)\)", lambda found: environment[found[1]], one) for one in container["args"]]
        words = container_words(
            root, [ROOT / "deploy" / "entrypoint.sh", *args], mounts,
            writable=not rights.get("readOnlyRootFilesystem"), user=rights.get("runAsUser", USER),
        )  # fmt: skip
        log = self._folder / f"{name}.log"
        with log.open("wb") as out:
            self.processes[name] = Command(words, log=log, stdout=out, stderr=out, env=environment)
        self._say(name, pod)

    def _name_services(self):
        status, text = self._server.ask("/api/v1/namespaces/default/services")
        names = [one["metadata"]["name"] for one in json.loads(text)["items"]] if status == 200 else []
        own = f"127.0.0.1 localhost {socket.gethostname()}\n"
        lines = "".join(f"127.0.0.1 {one}.default.svc {one}.default {one}\n" for one in names)
        with self._hosts.open("r+") as file:  # the same file: it is mounted in containers that run
            file.write(own + lines)

    def _volume(self, place, volume):
        """The folder of a volume; None if what it shows is not there yet."""
        folder = place / "volumes" / volume["name"]
        if claim := volume.get("persistentVolumeClaim"):
            return self._claims[claim["claimName"]]
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        for kind, name_of in (("configMap", "name"), ("secret", "secretName")):
            if kind not in volume:
                continue
            if (found := self._server.found(f"{kind.lower()}s", volume[kind][name_of])) is None:
                return None
            for name, value in found.get("data", {}).items():
                data = value.encode() if kind == "configMap" else base64.b64decode(value)
                (folder / name).write_bytes(data)
            folder.chmod(0o755)
        return folder

    def _account(self, place, account):
        folder = place / "account"
        folder.mkdir(exist_ok=True)
        (folder / "token").write_text(self._server.token_of(account))
        (folder / "ca.crt").write_text(self._server.certificate.read_text())
        (folder / "namespace").write_text("default")
        return folder

    def _environment(self, name, container):
        fields = {"status.podIP": "127.0.0.1", "metadata.name": name}
        environment = dict(IMAGE, SPARK_HOME=str(Path(pyspark.__file__).parent))
        if java := os.environ.get("JAVA_HOME"):
            environment["JAVA_HOME"] = java
        for one in container.get("envFrom", ()):
            data = self._server.found("secrets", one["secretRef"]["name"])["data"]
            environment |= {key: base64.b64decode(value).decode() for key, value in data.items()}
        for one in container.get("env", ()):
            source = one.get("valueFrom", {})
            if secret := source.get("secretKeyRef"):
                data = self._server.found("secrets", secret["name"])["data"]
                if secret["key"] in data:
                    environment[one["name"]] = base64.b64decode(data[secret["key"]]).decode()
            elif "fieldRef" in source:
                environment[one["name"]] = fields[source["fieldRef"]["fieldPath"]]
            elif one["name"] != "SPARK_HOME":
                environment[one["name"]] = one.get("value", "")
        return environment
