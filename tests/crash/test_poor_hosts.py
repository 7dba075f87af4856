"""A host of a cluster that lacks something: shared memory, room on its disks, the right time."""

import subprocess

import pytest

from support.crash.hosts import Cluster
from support.crash.on_cluster import Run
from support.depth import deeper

pytestmark = [
    pytest.mark.crash,
    pytest.mark.spark,
    pytest.mark.slow,
    deeper,
]

CLOCK = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>
#define AHEAD 300
int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, at);
    if (!code && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += AHEAD;
    return code;
}
int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path, ["alpha", "beta"]) as made:
        yield made


@pytest.fixture
def run(cluster, start, wait_until, tmp_path):
    return lambda **more: Run(cluster, start, wait_until, tmp_path, "300s", more=["beta"], **more)


def on(cluster, name, *words):
    subprocess.run([*cluster.entering(name), *map(str, words)], check=True, capture_output=True)


def test_shared_memory_that_is_full(cluster, run, tmp_path):
    on(cluster, "beta", "mount", "-o", "remount,size=64k", "/dev/shm")
    on(cluster, "beta", "dd", "if=/dev/zero", "of=/dev/shm/full", "bs=64k", "count=1")
    made = run()
    made.says("slot . is there", 3)
    made.continues()
    made.finish(tmp_path)


def test_a_disk_of_one_host_that_is_full(cluster, run, tmp_path):
    made = run()
    made.says("slot . is there", 3)
    made.continues()
    on(cluster, "beta", "mount", "-t", "tmpfs", "-o", "size=64k", "x", tmp_path / "beta" / "work")
    on(cluster, "beta", "sh", "-c", "dd if=/dev/zero of=/tmp/full bs=64k count=1; true")
    made.continues()
    cluster.kill_executors("beta")
    made.says("slot . is lost: process .* on `beta`")
    made.continues()
    made.finish(tmp_path)


def test_a_host_whose_clock_is_five_minutes_ahead(cluster, run, tmp_path, monkeypatch):
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    entering = cluster.entering
    cluster.entering = lambda name: [
        *entering(name), *(["env", f"LD_PRELOAD={library}"] if name == "beta" else []),
    ]  # fmt: skip
    made = run()
    made.says("slot . is there", 3)
    made.continues()
    made.finish(tmp_path)
