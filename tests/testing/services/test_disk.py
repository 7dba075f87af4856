"""Servers whose disk is full."""

import pytest

from ridgeline.testing import services
from ridgeline.testing.services import ServiceError

pytestmark = pytest.mark.crash
MIB = 1 << 20


@pytest.fixture(autouse=True)
def _has_disks():
    if reason := services.Service.why_no_disk():
        pytest.skip(reason)


def test_postgres_refuses_rows_on_a_full_disk_and_takes_them_again():
    with services.postgres(disk_bytes=256 * MIB) as postgres:
        postgres.execute("create table t (a text)")
        postgres.fill_disk()
        fill = "insert into t select repeat('x', 7000) from generate_series(1, 100)"
        with pytest.raises(ServiceError, match="No space left on device"):
            postgres.execute(fill)
        postgres.free_disk()
        postgres.recover()
        postgres.execute(fill)
        assert postgres.execute("select count(*) from t") == "100"


def test_data_on_a_small_disk_survive_a_kill():
    with services.postgres(disk_bytes=256 * MIB) as postgres:
        postgres.execute("create table t (a int); insert into t values (7)")
        postgres.kill()
        assert postgres.restart().execute("select a from t") == "7"
