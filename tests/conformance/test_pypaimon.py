"""pypaimon reads what we write, and we read what it writes: row for row, over many types."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.common.errors import CorruptDataError
from lakelog.common.types import ROW_KIND_TEXTS, DataField, DataType, TypeRoot
from lakelog.filestore.formats.avro.avro import iter_container
from lakelog.filestore.formats.avro.avro_rows import AvroFile
from lakelog.filestore.options import FILESTORE_OPTIONS
from lakelog.filestore.options.foreign import HONOURED, REFUSED_OPTIONS
from lakelog.filestore.options.harmless import HARMLESS
from lakelog.filestore.schema.new_schema import build_schema
from lakelog.filestore.table import FileStoreTable
from lakelog.logstore.options import LOGSTORE_OPTIONS
from tests.support.examples import rest_in_full
from tests.support.files.local_files import local_file
from tests.support.jobs import pypaimon_job
from tests.support.tables.strategies import Model, Write, shown

ROOT = Path(__file__).parent.parent.parent
PARTITIONED = pytest.param("partitioned", marks=pytest.mark.full)  # the gate has partitions of Flink's tables
KINDS = ["plain", PARTITIONED, "append"]


def run_job(python: Path, *arguments: str) -> object:
    """Run one job of pypaimon, and give what it prints."""
    script = Path(pypaimon_job.__file__)
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        [python, script, *arguments], capture_output=True, text=True, check=False, env=clean, timeout=120
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def row_kinds(rows: pa.Table, kind: str) -> pa.Array | None:
    """The kinds that the rows name; those of a table without primary key are inserts all."""
    if kind == "append":
        return None
    return pa.array([ROW_KIND_TEXTS.index(text) for text in rows["op"].to_pylist()], pa.int8())


def make_table(warehouse: Path, kind: str, options: dict[str, str]) -> FileStoreTable:
    primary, partition = pypaimon_job.keys_of(kind)
    schema = build_schema(
        pypaimon_job.SCHEMA,
        primary_keys=primary,
        partition_keys=partition,
        options={**pypaimon_job.options_of(kind), **options},
    )
    return FileStoreTable.create(warehouse / "db.db" / "ours", schema)


@pytest.mark.parametrize("options", [{"write-only": "true"}, {"num-sorted-run.compaction-trigger": "2"}], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_we_write(tmp_path: Path, pypaimon_python: Path, kind: str, options: dict[str, str]) -> None:
    table = make_table(tmp_path, kind, options)
    for rows in pypaimon_job.commits():
        table.write(rows, kinds=row_kinds(rows, kind))
    ours = pypaimon_job.shown(table.to_arrow())
    assert len(ours) > 50
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == ours


@pytest.mark.parametrize("kind", rest_in_full(["plain", PARTITIONED], 1))
@pytest.mark.parametrize(
    "options",
    [
        {"deletion-vectors.enabled": "true"},
        {"deletion-vectors.enabled": "true", "changelog-producer": "lookup"},  # it knows no vectors of 64 bits
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "2"},
    ],
    ids=str,
)
def test_it_reads_what_compactions_look_up(
    tmp_path: Path, pypaimon_python: Path, kind: str, options: dict[str, str]
) -> None:
    table, plain = (make_table(tmp_path / name, kind, given) for name, given in (("one", options), ("plain", {})))
    for rows in pypaimon_job.commits():
        for one in (table, plain):
            one.write(rows, kinds=row_kinds(rows, kind))
    ours = pypaimon_job.shown(table.to_arrow())
    assert ours == pypaimon_job.shown(plain.to_arrow())
    assert run_job(pypaimon_python, "read", str(tmp_path / "one"), "db.ours") == ours


@pytest.mark.parametrize("kind", KINDS)
def test_it_reads_what_a_full_compaction_leaves(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    table = make_table(tmp_path, kind, {"write-only": "true"})
    for rows in pypaimon_job.commits():
        table.write(rows, kinds=row_kinds(rows, kind))
    ours = pypaimon_job.shown(table.to_arrow())
    table.compact(full=True)
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == ours


@pytest.mark.parametrize("kind", ["plain", PARTITIONED])
def test_we_take_row_kinds_from_a_column_as_it_does(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    run_job(pypaimon_python, "write", str(tmp_path), "db.theirs", kind)
    table = make_table(tmp_path, kind, {"rowkind.field": pypaimon_job.KIND_COLUMN})
    for rows in pypaimon_job.commits():
        table.write(rows)
    ours = pypaimon_job.shown(table.to_arrow())
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.theirs") == ours
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == ours


def test_every_option_that_it_has_is_known(pypaimon_python: Path) -> None:
    """Those of a newer pypaimon come to the tables of `lakelog.filestore.options` by this test."""
    program = (
        "from pypaimon.common.options.config_option import ConfigOption\n"
        "from pypaimon.common.options.core_options import CoreOptions\n"
        "found = (value for value in vars(CoreOptions).values() if isinstance(value, ConfigOption))\n"
        "print('\\n'.join(option.key() for option in found))\n"
    )
    done = subprocess.run([pypaimon_python, "-c", program], check=True, capture_output=True, text=True, timeout=120)
    declared = {option.key for option in (*FILESTORE_OPTIONS, *LOGSTORE_OPTIONS)}
    harmless = {key for keys in HARMLESS.values() for key in keys}
    keys = set(done.stdout.split())
    assert len(keys) > 100
    assert keys - declared - harmless - HONOURED.keys() - REFUSED_OPTIONS.keys() == set()


def in_this_century(rows: pa.Table) -> pa.Table:
    """The rows with timestamps that ORC files can hold."""
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            per_century = {"ms": 10**3, "us": 10**6}[field.type.unit] * 86_400 * 36_500
            moments = rows.column(index).cast(pa.int64()).to_pylist()
            inside = pa.array([None if value is None else value % per_century for value in moments], pa.int64())
            rows = rows.set_column(index, field, inside.cast(field.type))
    return rows


@pytest.mark.parametrize(
    "options",
    [
        {"file.format": "orc", "file.format.per.level": "0:avro"},
        pytest.param({"file.format": "orc", "file.compression": "snappy"}, marks=pytest.mark.full),
        pytest.param({"file.format": "avro", "file.compression": "gzip"}, marks=pytest.mark.full),
        pytest.param({"file.format": "avro"}, marks=pytest.mark.full),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "kind", ["plain", *(pytest.param(kind, marks=pytest.mark.full) for kind in ("partitioned", "append"))]
)
def test_it_reads_what_we_write_in_other_formats(
    tmp_path: Path, pypaimon_python: Path, kind: str, options: dict[str, str]
) -> None:
    table = make_table(tmp_path, kind, {**options, "num-sorted-run.compaction-trigger": "3"})
    model = Model.of(table.schema)
    for given in pypaimon_job.commits():
        rows = in_this_century(given)
        table.write(rows, kinds=row_kinds(rows, kind))
        if kind != "append":
            model.apply(Write(rows=rows, kinds=row_kinds(rows, kind)))
    ours = table.to_arrow()
    if kind != "append":
        assert shown(ours) == model.shown()
    has_levels = kind != "append" and "file.format.per.level" in options
    extensions = {
        entry.file.file_name.rpartition(".")[2] for entry in table.live_files.of(table.snapshots.latest()).entries()
    }
    assert extensions == {options["file.format"]} | ({"avro"} if has_levels else set())
    assert run_job(pypaimon_python, "read", str(tmp_path), "db.ours") == pypaimon_job.shown(ours)


@pytest.mark.parametrize("kind", KINDS)
def test_we_read_what_it_writes(tmp_path: Path, pypaimon_python: Path, kind: str) -> None:
    run_job(pypaimon_python, "write", str(tmp_path), "db.theirs", kind)
    table = FileStoreTable.open(tmp_path / "db.db" / "theirs")
    found = table.to_arrow()
    assert pypaimon_job.shown(found) == run_job(pypaimon_python, "read", str(tmp_path), "db.theirs")
    if kind == "append":
        assert found.num_rows == sum(rows.num_rows for rows in pypaimon_job.commits())
        return
    model = Model.of(make_table(tmp_path, kind, {}).schema)
    for rows in pypaimon_job.commits():
        model.apply(Write(rows=rows, kinds=row_kinds(rows, kind)))
    assert found.num_rows == len(model.rows)


def test_avro_files_of_snappy_are_read(tmp_path: Path, pypaimon_python: Path) -> None:
    path = tmp_path / "x.avro"
    program = (
        "import fastavro, sys\n"
        "columns = [{'name': 'id', 'type': 'int'}, {'name': 'text', 'type': ['null', 'string']}]\n"
        "records = ({'id': n, 'text': f'text {n % 7}' * 5} for n in range(20_000))\n"
        "schema = {'type': 'record', 'name': 'r', 'fields': columns}\n"
        "fastavro.writer(open(sys.argv[1], 'wb'), schema, records, codec='snappy')\n"
    )
    subprocess.run([pypaimon_python, "-c", program, path], check=True, timeout=120)
    data = path.read_bytes()
    expected = [{"id": number, "text": f"text {number % 7}" * 5} for number in range(20_000)]
    assert list(iter_container(data, path=str(path))) == expected
    fields = [
        DataField(id=0, name="id", type=DataType(root=TypeRoot.INT, nullable=False)),
        DataField(id=1, name="text", type=DataType(root=TypeRoot.VARCHAR, length=2**31 - 1)),
    ]
    with AvroFile(local_file(path)) as file:
        assert pa.Table.from_batches(file.iter_batches(fields, batch_rows=8_192)).to_pylist() == expected
    for place in range(len(data) // 2, len(data), 1_999):
        damaged = bytearray(data)
        damaged[place] ^= 0x10
        with pytest.raises(CorruptDataError, match=r"x\.avro"):
            list(iter_container(bytes(damaged), path=str(path)))
