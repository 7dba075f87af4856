"""Containers without a container runtime: a process with a root of its own, which may be read-only."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ridgeline
from support.paths import ROOT

USER = 10001
"""The user of the image."""
_SCRIPT = """\
set -eu
root=$1 writable=$2 user=$3; shift 3
mount -t tmpfs -o mode=755 image "$root"
for one in bin sbin lib lib64; do [ -L /$one ] && cp -a /$one "$root/$one" || true; done
cp -a /etc "$root/etc"
echo "ridgeline:x:10001:10001::/tmp:/usr/sbin/nologin" >> "$root/etc/passwd"
echo "ridgeline:x:10001:" >> "$root/etc/group"
mkdir "$root/usr" "$root/proc" "$root/dev" "$root/tmp"
chmod 1777 "$root/tmp"
mount --bind -o ro /usr "$root/usr"
mount --rbind /proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777,size=64m shm "$root/dev/shm"
while [ "$1" != -- ]; do
    how=$1 from=$2 to=$root$3; shift 3
    if [ -d "$from" ]; then mkdir -p "$to"; else mkdir -p "${to%/*}"; [ -e "$to" ] || : > "$to"; fi
    mount --bind -o "$how" "$from" "$to"
done
shift
[ "$writable" = yes ] || mount -o remount,ro "$root"
exec chroot "$root" setpriv --reuid "$user" --regid "$user" --groups "$user" --no-new-privs --inh-caps=-all \\
    --bounding-set=-all sh -c 'cd /tmp && exec "$@"' sh "$@"
"""
IMAGE = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONPATH": str(Path(ridgeline.__file__).parent.parent),
    "PYSPARK_PYTHON": sys.executable,
    "RIDGELINE_COMMAND": str(Path(sys.executable).with_name("ridgeline")),
}
"""The variables of the image, whose Python is that of these tests."""


def need_namespaces():
    """Skip where this user may make no mount namespace."""
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True, check=False
    )
    if os.geteuid() or tried.returncode:
        pytest.skip("a root of its own for a process needs the user root, and `unshare`")


def container_words(folder, words, mounts, *, writable=False, user=USER):
    """The command of a process whose root is that of the image: this machine's programs, and nothing else.

    `mounts`: triples of `ro` or `rw`, a folder or file, and its place in the container. `folder`: an empty
    one. `writable`: whether the root may be written; `/tmp` is writable then, for all users.
    """
    image = [sys.base_prefix, sys.prefix, IMAGE["PYTHONPATH"], str(ROOT / "deploy")]
    if java := os.environ.get("JAVA_HOME"):
        image.append(java)
    seen = dict.fromkeys(one for one in image if not one.startswith("/usr/"))
    flat = [str(part) for one in (*(("ro", one, one) for one in seen), *mounts) for part in one]
    own = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _SCRIPT, "container"]
    return [*own, str(folder), "yes" if writable else "no", str(user), *flat, "--", *map(str, words)]
