"""Files of HDFS as pyarrow opens them, over a file system that needs no cluster."""

import errno

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq
import pytest

from ridgeline.api.support.stores.hdfs import HdfsFiles, _Stream


def test_what_was_written_is_read_at_any_place(tmp_path):
    files = pyarrow.fs.PyFileSystem(HdfsFiles(pyarrow.fs.LocalFileSystem()))
    path = f"{tmp_path}/orders.parquet"
    orders = pa.table({"cents": list(range(1_000))})
    with files.open_output_stream(path) as file:
        pq.write_table(orders, file)
    with files.open_input_file(path) as file:
        assert pq.read_table(file, columns=["cents"]) == orders
        file.seek(0)
        assert (file.read(4), file.tell(), file.size()) == (
            b"PAR1",
            4,
            (tmp_path / "orders.parquet").stat().st_size,
        )
        assert file.read()[-4:] == b"PAR1"
    with files.open_input_stream(path) as file:
        assert file.read() == (tmp_path / "orders.parquet").read_bytes()


def test_an_error_of_the_open_file_passes_through():
    class Broken:
        closed = False

        def read(self, _size):
            raise OSError(errno.EIO, "it is broken")

    with pytest.raises(OSError, match="it is broken"):
        _Stream(Broken()).read(1)
