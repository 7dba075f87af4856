"""Hosts on one machine: network namespaces on a bridge, each with a name, `/tmp` and `/dev/shm` of its own.

`Cluster` has a Spark standalone cluster on them: the master beside the test, a worker on each host.
"""

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import ridgeline
from support.paths import ROOT
from support.ports import free_port

SPARK = Path(pyspark.__file__).parent
SOURCES = Path(ridgeline.__file__).parent.parent

_NUMBERS = itertools.count()
_NO_NUMBER = "02:77:00:00:00:fe"
"""No interface has it."""


def _run(*command):
    subprocess.run(list(map(str, command)), check=True, capture_output=True)


class Hosts:
    """This machine's end of the bridge, and hosts. Skips without root."""

    def __init__(self, folder, names):
        if os.getuid() or not all(map(shutil.which, ("ip", "unshare", "nsenter"))):
            pytest.skip("hosts need root and iproute2")
        self.folder = Path(folder)
        number = next(_NUMBERS)  # links of a cluster before are still there for a moment
        self.bridge = f"rl{os.getpid() % 100_000}{number}"
        self.net = f"10.{(os.getpid() + number) % 200 + 20}.77"
        self.address = f"{self.net}.1"
        self.names = list(names)
        self._holders = {}
        self._processes = []

    def __enter__(self):
        try:
            own = f"02:77:00:{os.getpid() >> 8 & 255:02x}:{os.getpid() & 255:02x}:01"
            _run("ip", "link", "add", self.bridge, "address", own, "type", "bridge")  # a port has another one
        except subprocess.CalledProcessError:
            pytest.skip("this user may not make network namespaces here")
        _run("ip", "addr", "add", f"{self.address}/24", "dev", self.bridge)
        _run("ip", "link", "set", self.bridge, "up")
        hosts = self.folder / "hosts"
        hosts.write_text(self._hosts_text())
        silent = f"nameserver {self.net}.250\noptions timeout:5 attempts:2\n"  # nobody has that address
        (self.folder / "resolv.conf").write_text(silent)
        for name in self.names:
            self._make_host(name, hosts)
        return self

    def __exit__(self, *_):
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()
        for name in self.names:
            self.kill_host(name)
            subprocess.run(["ip", "netns", "del", self._namespace(name)], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", self.bridge], check=False, capture_output=True)

    def entering(self, name):
        """What a command begins with that runs on a host; nothing for this machine."""
        if not name:
            return []
        return ["nsenter", "-t", str(self._holders[name].pid), "-m", "-n", "-u"]

    def kill_host(self, name):
        """SIGKILL to every process on a host, as when its power fails."""
        for pid in self._pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def cut(self, name):
        """Cut the network between a host and the others: no packet comes or goes, and nobody is told."""
        _run("ip", "link", "set", self._link(name), "nomaster")

    def mend(self, name):
        """Undo `cut`."""
        _run("ip", "link", "set", self._link(name), "master", self.bridge)

    def drop(self, sender, receiver):
        """Lose all that a host sends to another one, without a word; `""` is this machine, the driver's.

        The sender believes that the other's interface has a number which no interface has.
        """
        device, space = self._own_end(sender)
        silent = ("lladdr", _NO_NUMBER, "nud", "permanent", "dev", device)
        _run("ip", *space, "neigh", "replace", self._address(receiver), *silent)

    def carry(self, sender, receiver):
        """Undo `drop`."""
        device, space = self._own_end(sender)
        _run("ip", *space, "neigh", "del", self._address(receiver), "dev", device)

    def half_open(self, name):
        """Let a host be gone for all others, which no connection is told, as after a power failure."""
        for other in ("", *self.names):
            if other != name:
                self.drop(other, name)
                self.drop(name, other)

    def close_again(self, name):
        """Undo `half_open`."""
        for other in ("", *self.names):
            if other != name:
                self.carry(other, name)
                self.carry(name, other)

    def slow(self, name, rate):
        """Let a host send and get no more than `rate`, such as `1mbit`; None: as much as it can."""
        for device, space in ((self._link(name), []), ("eth0", ["-n", self._namespace(name)])):
            limits = ["rate", rate, "burst", "16kb", "latency", "400ms"]
            command = ["tc", *space, "qdisc", "replace" if rate else "del", "dev", device, "root"]
            _run(*command, *(["tbf", *limits] if rate else []))

    def forget_names(self):
        """Let no host's name be known any more; the server that is asked for them answers nothing."""
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n")

    def know_names(self):
        """Undo `forget_names`."""
        (self.folder / "hosts").write_text(self._hosts_text())

    def signal_processes(self, name, text, number):
        """Send a signal to the processes on a host whose command line has this text."""
        for pid in self._pids(name):
            with contextlib.suppress(OSError):
                if text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                    os.kill(pid, number)

    def _pids(self, name):
        found = subprocess.run(
            ["ip", "netns", "pids", self._namespace(name)], check=False, capture_output=True, text=True
        )
        return [int(pid) for pid in found.stdout.split()]

    def _make_host(self, name, hosts):
        space, link = self._namespace(name), self._link(name)
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", space)
        # Off the bridge this machine would answer for its own address there, though nobody is to be reached.
        Path(f"/proc/sys/net/ipv4/conf/{link}/arp_ignore").write_text("8")
        _run("ip", "link", "set", link, "master", self.bridge, "up")
        _run("ip", "-n", space, "addr", "add", f"{self._address(name)}/24", "dev", "eth0")
        _run("ip", "-n", space, "link", "set", "eth0", "up")
        _run("ip", "-n", space, "link", "set", "lo", "up")
        silent = ("lladdr", _NO_NUMBER, "nud", "permanent", "dev", "eth0")
        _run("ip", "-n", space, "neigh", "replace", f"{self.net}.250", *silent)
        own = self.folder / name
        own.mkdir()
        script = self._script(name, own, hosts)
        entering = ["ip", "netns", "exec", space, "unshare", "-m", "-u", "--propagation", "private"]
        holder = subprocess.Popen([*entering, "bash", "-c", script], stdout=subprocess.PIPE, text=True)
        with holder.stdout:
            assert holder.stdout.readline() == "ready\n"
        self._holders[name] = holder
        self._processes.append(holder)

    def _script(self, name, own, hosts):
        """What gives a host its name and its folders; of `/tmp` it sees what the test needs."""
        lines = ["set -e", f"hostname {name}", f"mount --bind {hosts} /etc/hosts"]
        lines += [f"mount --bind {self.folder}/resolv.conf /etc/resolv.conf"]
        lines += ["mount -t tmpfs tmpfs /dev/shm", f"mkdir -m 1777 {own}/tmp"]
        for seen in {str(self.folder), str(ROOT), sys.prefix}:
            if seen.startswith("/tmp/") and not seen.startswith(f"{ROOT}/"):
                inside = f"{own}/tmp/{seen.removeprefix('/tmp/')}"
                lines += [f"mkdir -p {inside}", f"mount --bind {seen} {inside}"]
        return "\n".join([*lines, f"mount --rbind {own}/tmp /tmp", "echo ready", "exec sleep 100000"])

    def _hosts_text(self):
        lines = [f"{self._address(name)} {name}" for name in self.names]
        return "\n".join(["127.0.0.1 localhost", *lines, ""])

    def _address(self, name):
        """The address of a host; of this machine's end of the bridge for an empty name."""
        return f"{self.net}.{11 + self.names.index(name)}" if name else self.address

    def _own_end(self, name):
        """The interface of a host, and what `ip` has to be told to find it."""
        return ("eth0", ["-n", self._namespace(name)]) if name else (self.bridge, [])

    def _link(self, name):
        return f"{self.bridge}v{self.names.index(name)}"

    def _namespace(self, name):
        return f"{self.bridge}-{name}"


class Cluster(Hosts):
    """A Spark master at this machine's end of the bridge, and hosts for workers."""

    def __enter__(self):
        super().__enter__()
        self.port = free_port(self.address)
        self.master = f"spark://{self.address}:{self.port}"
        options = ("--host", self.address, "--port", self.port, "--webui-port", 0)
        self._spawn("master", [], "org.apache.spark.deploy.master.Master", *options)
        return self

    def start_worker(self, name, cores):
        """A Spark worker on a host."""
        options = ("--host", self._address(name), "--cores", cores, "--memory", "2g", "--webui-port", 0)
        work = ("--work-dir", self.folder / name / "work", self.master)
        self._spawn(
            name or "own", self.entering(name), "org.apache.spark.deploy.worker.Worker", *options, *work
        )

    def kill_executors(self, name):
        """SIGKILL to Spark's executors on a host; its worker starts others."""
        self.signal_processes(name, "CoarseGrainedExecutorBackend", signal.SIGKILL)

    @property
    def settings(self):
        """Arguments of `ridgeline run` for this cluster."""
        settings = {
            "spark.driver.host": self.address,
            "spark.driver.bindAddress": self.address,
            "spark.executorEnv.PYTHONPATH": str(SOURCES),
            "spark.executor.memory": "512m",
        }
        conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
        return ["--master", self.master, *conf]

    def text(self, name):
        """What the master or a worker has logged."""
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _spawn(self, name, entering, kind, *arguments):
        command = [*entering, str(SPARK / "bin" / "spark-class"), kind, *map(str, arguments)]
        environment = {
            **os.environ,
            "SPARK_HOME": str(SPARK),
            "SPARK_LOCAL_IP": self._address(name) if name in self.names else self.address,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self.folder / f"{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    command, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
                )
            )
