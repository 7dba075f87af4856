"""A host of a cluster that lacks something: shared memory, room on its disks, the right time."""

import subprocess

import pytest

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


def on(cluster, *words):
    """Run a command on one of the hosts."""
    subprocess.run([*cluster.entering("beta"), *map(str, words)], check=True, capture_output=True)


def test_shared_memory_that_is_full(on_cluster):
    def fill(cluster):
        on(cluster, "mount", "-o", "remount,size=64k", "/dev/shm")
        on(cluster, "dd", "if=/dev/zero", "of=/dev/shm/full", "bs=64k", "count=1")

    with on_cluster("300s", prepare=fill):
        pass


def test_a_disk_of_one_host_that_is_full(on_cluster, tmp_path):
    with on_cluster("300s") as running:
        on(running.cluster, "mount", "-t", "tmpfs", "-o", "size=64k", "x", tmp_path / "beta" / "work")
        on(running.cluster, "sh", "-c", "dd if=/dev/zero of=/tmp/full bs=64k count=1; true")
        running.continues()
        running.cluster.kill_executors("beta")
        running.says("slot . is lost: process .* on `beta`")


def test_a_host_whose_clock_is_five_minutes_ahead(on_cluster, tmp_path):
    source, library = tmp_path / "clock.c", tmp_path / "clock.so"
    source.write_text(CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)

    def preload(cluster):
        entering = cluster.entering
        cluster.entering = lambda name: [
            *entering(name), *(["env", f"LD_PRELOAD={library}"] if name == "beta" else []),
        ]  # fmt: skip

    with on_cluster("300s", prepare=preload):
        pass
