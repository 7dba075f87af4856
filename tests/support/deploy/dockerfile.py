"""The steps of a Dockerfile without a container runtime: each stage is a folder, and `chroot` runs in it."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

_BASE = """\
set -eu
root=$1 work=$2
for one in bin sbin lib lib64; do [ -L /$one ] && cp -a /$one "$root/$one" || true; done
cp -a /etc "$root/etc"
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/usr" "$root/var" "$root/opt" "$root$3" "$work"
chmod 1777 "$root/tmp"
for one in usr var; do
    mkdir "$work/$one-upper" "$work/$one-work"
    mount -t overlay -o "lowerdir=/$one,upperdir=$work/$one-upper,workdir=$work/$one-work" over "$root/$one"
done
mount --bind -o ro "$3" "$root$3"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
"""


_RUN = """\
set -eu
root=$1 user=$2 group=$3; shift 3
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount --rbind "$root" /mnt
for one in "" /usr /var; do mount -o remount,ro,bind "/mnt$one"; done
exec chroot /mnt setpriv --reuid "$user" --regid "$group" --clear-groups --no-new-privs --inh-caps=-all \\
    --bounding-set=-all sh -c 'cd /tmp && exec "$@"' sh "$@"
"""


class Stages:
    """Builds the stages of a Dockerfile in a mount namespace, whose base images are this machine's system.

    It must be Debian with the Python of the base image. `folder`: where the stages lie; not below /usr or
    /var. `context`: the folder of `COPY`. To be used in a process that `unshare --mount` has started.
    """

    def __init__(self, dockerfile, context, folder):
        self._lines = re.sub(r"\\\n", " ", re.sub(r"(?m)^\s*#.*\n", "", dockerfile.read_text())).splitlines()
        self._context, self._folder, self._roots = context, folder, []
        self.variables, self._arguments = {}, {}
        self.user, self.entry = "0:0", []

    def build(self):
        """The root of the last stage."""
        for line in filter(None, map(str.strip, self._lines)):
            word, _, rest = line.partition(" ")
            getattr(self, f"_{word.lower()}")(rest.strip())
        return self._roots[-1][1]

    def _from(self, rest):
        name = rest.partition(" AS ")[2] or "last"
        root = self._folder / name
        root.mkdir()
        words = ["sh", "-c", _BASE, "base", root, self._folder / f"{name}.work", sys.base_prefix]
        subprocess.run(list(map(str, words)), check=True, stdout=sys.stderr)
        self._roots.append((name, root))
        self.variables = {
            "PATH": f"{sys.base_prefix}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        }
        self._arguments, self._place = {}, "/"

    def _arg(self, rest):
        name, _, value = rest.partition("=")
        self._arguments[name] = os.environ.get(name, value)

    def _workdir(self, rest):
        self._place = rest
        (self._roots[-1][1] / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)

    def _copy(self, rest):
        *sources, target = shlex.split(rest)
        base = self._context
        if sources[0].startswith("--from="):
            base = dict(self._roots)[sources.pop(0).partition("=")[2]]
        for one in sources:
            source = base / one.lstrip("/")
            place = self._roots[-1][1] / str(Path(self._place, target)).lstrip("/")
            if source.is_dir():
                shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
            else:
                if target.endswith("/"):
                    place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, place)

    def _run(self, rest):
        environment = {**self._passed(), **self.variables, **self._arguments}
        inside = ["sh", "-c", f"cd {self._place} && {rest}"]
        subprocess.run(
            ["chroot", str(self._roots[-1][1]), *inside], env=environment, check=True, stdout=sys.stderr
        )

    def _passed(self):
        """How packages are reached from this machine."""
        named = ("PIP_", "HTTP", "http", "SSL_", "UV_", "NO_PROXY", "no_proxy")
        return {name: value for name, value in os.environ.items() if name.startswith(named)}

    def _env(self, rest):
        for one in shlex.split(rest):
            name, _, value = one.partition("=")
            self.variables[name] = value.replace("$PATH", self.variables["PATH"])

    def _user(self, rest):
        self.user = rest

    def _entrypoint(self, rest):
        self.entry = json.loads(rest)

    def run(self, words):
        """What a command of the image prints: as its user, without rights, and with `/tmp` alone writable."""
        root = str(self._roots[-1][1])
        own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _RUN, "run", root]
        environment = {**self.variables, "HOME": "/tmp"}
        user = self.user.split(":")
        return subprocess.run(
            [*own, *user, *words], env=environment, capture_output=True, text=True, check=False
        )


def main(dockerfile, context, folder, *applications):
    """Build it, run commands of it, and write what they print: a line of JSON each."""
    stages = Stages(Path(dockerfile), Path(context), Path(folder))
    root = stages.build()
    for one in applications:
        shutil.copy(one, root)
    for line in sys.stdin:
        done = stages.run([*stages.entry, *json.loads(line)])
        print(json.dumps([done.returncode, done.stdout + done.stderr]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
