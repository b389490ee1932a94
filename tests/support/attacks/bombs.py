"""Files of a few hundred KiB that claim, or hold, far more: each is made in a folder and read by a function.

`python -m tests.support.attacks.bombs FOLDER` reads all of them in one process whose address space is limited, and
prints a line of JSON for each: its name, what came of it, processor seconds, and by how much memory grew.
"""

from __future__ import annotations

import io
import json
import lzma
import random
import resource
import struct
import sys
import time
import zlib
from bz2 import BZ2Compressor
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any  # Any: Avro schemas are JSON of many shapes

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.common.errors import LakelogError
from lakelog.common.types import DataField, parse_type
from lakelog.filestore.encoding.roaring import encode_roaring
from lakelog.filestore.formats.avro.avro import encode_container
from lakelog.filestore.formats.avro.avro_blocks import MAGIC, SYNC_BYTES, AvroBlocks
from lakelog.filestore.formats.file_writing import create_data_file
from lakelog.filestore.formats.opening import open_data_file
from lakelog.filestore.formats.records import read_records
from lakelog.filestore.index.deletion_vectors import DeletionFile, encode_vectors, read_positions
from lakelog.filestore.io.local_files import LocalFileIO
from lakelog.filestore.metadata.manifests.manifest import ENTRY_CACHE, ManifestFiles
from lakelog.filestore.metadata.manifests.manifest_schemas import ENTRY_SCHEMA, INDEX_SCHEMA, LIST_SCHEMA
from lakelog.filestore.metadata.snapshots.snapshot import Snapshot
from lakelog.filestore.metadata.snapshots.snapshot_manager import SnapshotManager
from lakelog.filestore.schema.paths import FileNames, TablePaths
from lakelog.filestore.schema.schema import TableSchema
from tests.support.attacks.parquet_attacks import damaged_footers, foreign_files, orc_of_too_many_digits, read_typed
from tests.support.files.data_files import plain_entry
from tests.support.files.local_files import local_file

ADDRESS_BYTES = 600 << 20  # beside what a process has mapped once everything is imported
_ZEROS = bytes(1 << 20)
_BOMB_MIB = 80
IO = LocalFileIO()
FIELDS = [DataField(id=0, name="a", type=parse_type("STRING"))]
_RECORD: Mapping[str, Any] = {"type": "record", "name": "record", "fields": [{"name": "a", "type": ["null", "string"]}]}
Read = Callable[[str], object]


def _deflated() -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return b"".join([*(packer.compress(_ZEROS) for _ in range(_BOMB_MIB)), packer.flush()])


def _zstd() -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packer:
        for _ in range(32 * _BOMB_MIB):
            packer.write(_ZEROS)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _bzip2() -> bytes:
    packer = BZ2Compressor()
    return b"".join([*(packer.compress(_ZEROS) for _ in range(_BOMB_MIB)), packer.flush()])


def _xz() -> bytes:
    packer = lzma.LZMACompressor(preset=0)
    return b"".join([*(packer.compress(_ZEROS) for _ in range(_BOMB_MIB)), packer.flush()])


def _snappy() -> bytes:
    packed = _varint(1 << 31) + b"\x00\x00" + b"\xfe\x01\x00" * 50_000  # 64 bytes each
    return packed + bytes(4)


PACKERS: Mapping[str, Callable[[], bytes]] = {
    "deflate": _deflated,
    "zstandard": _zstd,
    "bzip2": _bzip2,
    "xz": _xz,
    "snappy": _snappy,
}


def container(schema: object, block: bytes, *, count: int = 1, codec: str = "null") -> bytes:
    """An Avro object file of one block. A schema may be its text."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    meta = {"avro.schema": text.encode(), "avro.codec": codec.encode()}
    parts = [MAGIC, _long(len(meta))]
    for key, value in meta.items():
        parts += [_long(len(key)), key.encode(), _long(len(value)), value]
    sync = bytes(SYNC_BYTES)
    return b"".join([*parts, b"\x00", sync, _long(count), _long(len(block)), block, sync])


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _long(number: int) -> bytes:
    return _varint((number << 1) ^ (number >> 63) if number >= 0 else ((-number - 1) << 1) | 1)


def _record(kind: object) -> object:
    return {"type": "record", "name": "r", "fields": [{"name": "a", "type": kind}]}


def _nested(depth: int) -> str:
    kind = '{"type": "array", "items": ' * depth + '"string"' + "}" * depth
    return f'{{"type": "record", "name": "r", "fields": [{{"name": "a", "type": {kind}}}]}}'


_ARRAY = {"type": "array", "items": "null"}
_TINY = {"type": "array", "items": {"type": "record", "name": "t", "fields": [{"name": "b", "type": ["null", "int"]}]}}
_EMPTY = {"type": "array", "items": {"type": "record", "name": "e", "fields": []}}


def _avro_bombs() -> Iterator[tuple[str, bytes]]:
    packed = {codec: pack() for codec, pack in PACKERS.items()}
    for codec, block in packed.items():
        yield codec, container(_RECORD, block, codec=codec)
        yield f"{codec} of many", container(_RECORD, block, count=1 << 40, codec=codec)
    yield "records", container(_RECORD, b"\x00" * 100, count=1 << 40)
    yield "records without bytes", container(_record("null"), b"", count=1 << 40)
    yield "records below zero", container(_RECORD, b"\x00" * 100, count=-(1 << 40))
    yield "nulls", container(_record(_ARRAY), _long(1 << 40) + b"\x00")
    yield "empty records", container(_record(_EMPTY), _long(1 << 40) + b"\x00")
    yield (
        "array of a union",
        container(_record({"type": "array", "items": ["null", "int"]}), _long(1 << 40) + bytes(99)),
    )
    yield "array with a size", container(_record(_TINY), _long(-(1 << 40)) + _long(1 << 40) + bytes(99))
    tiny = zlib.compressobj(9, wbits=-15)
    block = _long(60 << 20) + bytes(60 << 20) + b"\x00"
    yield "tiny records", container(_record(_TINY), tiny.compress(block) + tiny.flush(), codec="deflate")
    yield "text", container(_RECORD, b"\x02" + _long(1 << 40) + b"x")
    yield "text below zero", container(_RECORD, b"\x02" + _long(-5) + b"x")
    yield "number without end", container(_record("long"), b"\xff" * 200_000)
    yield "deep schema", container(_nested(100), b"\x00")
    yield "deeper schema", container(_nested(3_000), b"\x00")
    wide = {
        "type": "record",
        "name": "r",
        "fields": [{"name": f"c{n}", "type": ["null", "int"]} for n in range(100_000)],
    }
    yield "wide schema", container(wide, bytes(100_000))
    itself = {"type": "record", "name": "r", "fields": [{"name": "r", "type": "r"}]}
    yield "a record in itself", container(itself, b"")
    yield "header", MAGIC + _long(1 << 40) + b"\x02a" * 200
    yield "key of the header", MAGIC + b"\x02" + _long(1 << 40)


def _read_list(path: str) -> object:
    return ManifestFiles(IO, TablePaths(path.partition("/manifest/")[0])).read_list(Path(path).name)


def _read_manifest(path: str) -> object:
    return ManifestFiles(IO, TablePaths(path.partition("/manifest/")[0])).read(Path(path).name)


def _read_data(path: str) -> object:
    rows = 0
    with open_data_file(local_file(path)) as file:
        for batch in file.iter_batches(FIELDS, batch_rows=1_000):
            rows += batch.num_rows
    return rows


def _read_index(path: str) -> object:
    return read_records(IO, path)


def _schemas_of(given: object) -> object:
    """A schema of our own, whose named records fastavro has put in order, as JSON."""
    if isinstance(given, dict):
        return {key: _schemas_of(value) for key, value in given.items() if not key.startswith("__")}
    return [_schemas_of(one) for one in given] if isinstance(given, list) else given


def _own_bombs() -> Iterator[tuple[str, bytes, Read]]:
    """The schemas that lakelog's files have, with the contents of bombs."""
    for name, schema, read in (
        ("manifest", ENTRY_SCHEMA, _read_manifest),
        ("list", LIST_SCHEMA, _read_list),
        ("index manifest", INDEX_SCHEMA, _read_index),
    ):
        plain = _schemas_of(schema)
        yield f"{name} of zeros", container(plain, PACKERS["zstandard"](), codec="zstandard"), read
        yield f"{name} of 2^40 records", container(plain, bytes(1_000), count=1 << 40), read
        packer = zlib.compressobj(9, wbits=-15)
        block = b"".join([packer.compress(bytes(60 << 20)), packer.flush()])
        yield f"{name} of 60 MiB", container(plain, block, count=1_000_000, codec="deflate"), read


def _roaring(*, containers: int, is_run: bool) -> bytes:
    """A bitmap whose containers are full: 65,536 numbers in a few bytes, or in none."""
    if is_run:
        flags = b"\xff" * ((containers + 7) // 8)
        head = struct.pack("<I", 12_347 | (containers - 1) << 16) + flags
        body = struct.pack("<HHH", 1, 0, 0xFFFF) * containers
    else:
        head, body = struct.pack("<II", 12_346, containers), b""
    heads = b"".join(struct.pack("<HH", number & 0xFFFF, 0xFFFF) for number in range(containers))
    return head + heads + bytes(4 * containers) + body


def _vector(bitmap: bytes) -> bytes:
    body = struct.pack(">I", 1_581_511_376) + bitmap
    return b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _wide_vector(count: int) -> bytes:
    body = struct.pack("<iq", 1_681_511_377, count)
    return b"\x01" + struct.pack(">i", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def _read_vector(path: str) -> object:
    size = Path(path).stat().st_size
    return len(read_positions(IO, DeletionFile(path=path, offset=1, length=size - 9, cardinality=None)))


def _schema_text(columns: int) -> bytes:
    fields = [{"id": number, "name": f"c{number}", "type": "INT"} for number in range(columns)]
    keys: Mapping[str, object] = {"partitionKeys": [], "primaryKeys": [], "options": {}}
    return json.dumps({"version": 3, "id": 0, "fields": fields, "highestFieldId": columns, **keys}).encode()


def _read_schema(path: str) -> object:
    return TableSchema.from_json(IO.read_bytes(path), path=path).arrow_schema


def _read_snapshot(path: str) -> object:
    return Snapshot.from_json(IO.read_bytes(path), path=path)


def _read_hint(path: str) -> object:
    return SnapshotManager(IO, TablePaths(path.partition("/snapshot/")[0])).latest_id()


def _parquet(change: Callable[[bytes], bytes]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * 10] * 100}), sink, compression="none", use_dictionary=False)
    data = sink.getvalue()
    size = int.from_bytes(data[-8:-4], "little")
    footer = change(data[-8 - size : -8])
    return data[: -8 - size] + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def make_bombs(folder: Path) -> Iterator[tuple[str, Path, Read]]:
    """Every bomb: its name, its file, and what reads it."""
    for kind in ("manifest", "bucket-0", "snapshot"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    number = 0

    def put(data: bytes, place: str) -> Path:
        nonlocal number
        number += 1
        path = folder / place.format(number)
        path.write_bytes(data)
        return path

    for name, data in _avro_bombs():
        yield f"list: {name}", put(data, "manifest/manifest-list-{}"), _read_list
        yield f"manifest: {name}", put(data, "manifest/manifest-{}"), _read_manifest
        yield f"data: {name}", put(data, "bucket-0/data-{}.avro"), _read_data
    for name, data, read in _own_bombs():
        yield name, put(data, "manifest/manifest-{}"), read
    yield "vector of runs", put(_vector(_roaring(containers=65_536, is_run=True)), "bucket-0/index-{}"), _read_vector
    yield "vector of bits", put(_vector(_roaring(containers=1 << 20, is_run=False)), "bucket-0/index-{}"), _read_vector
    yield "vector of 2^40 bitmaps", put(_wide_vector(1 << 40), "bucket-0/index-{}"), _read_vector
    yield "vector below zero", put(_wide_vector(-1), "bucket-0/index-{}"), _read_vector
    yield "schema of 100,000 columns", put(_schema_text(100_000), "snapshot/schema-{}"), _read_schema
    yield "schema of 10,000 columns", put(_schema_text(10_000), "snapshot/schema-{}"), _read_schema
    yield "snapshot of lists", put(b"[" * (1 << 18), "snapshot/snapshot-{}"), _read_snapshot
    yield "snapshot of zeros", put(b"[" + b"0," * (100 << 20 >> 1) + b"0]", "snapshot/snapshot-{}"), _read_snapshot
    yield "snapshot of empty lists", put(b"[" + b"[]," * (5 << 20) + b"0]", "snapshot/snapshot-{}"), _read_snapshot
    for name in ("snapshot-9", "LATEST"):
        path = folder / "snapshot" / name
        with path.open("wb") as file:
            file.truncate(1 << 40)
        yield f"{name} of a TiB", path, _read_snapshot if name == "snapshot-9" else _read_hint
    for name, wrong in (("rows", _parquet(lambda footer: footer.replace(_varint(200), _varint(1 << 50)))),):
        yield f"parquet: {name}", put(wrong, "bucket-0/data-{}.parquet"), _read_data
    for name, wrong in damaged_footers():
        yield f"footer: {name}", put(wrong, "bucket-0/data-{}.parquet"), read_typed
    yield "ORC data: digits", put(orc_of_too_many_digits(), "bucket-0/data-{}.orc"), _read_data
    yield "ORC records: digits", put(orc_of_too_many_digits(), "manifest/manifest-{}"), _read_index


def _whole_files(folder: Path) -> Iterator[tuple[str, bytes, Read]]:
    """Files of every kind as lakelog writes them, but for digests in their names."""
    entries = [plain_entry(f"data-{number}.parquet", bucket=number) for number in range(3)]
    (folder / "whole" / "manifest").mkdir(parents=True)
    for codec in ("null", "zstd", "deflate"):
        manifests = ManifestFiles(IO, TablePaths(str(folder / "whole")), compression=codec)
        metas = manifests.write(entries, names=FileNames(), schema_id=0)
        name, _ = manifests.write_list(metas, names=FileNames())
        yield f"manifest ({codec})", IO.read_bytes(manifests.paths.manifest(metas[0].file_name)), _read_manifest
        yield f"list ({codec})", IO.read_bytes(manifests.paths.manifest(name)), _read_list
    ranges = [{"f0": "data-1", "f1": 1, "f2": 22, "_CARDINALITY": 3}]
    record = {
        "_VERSION": 1,
        "_KIND": 0,
        "_PARTITION": bytes(12),
        "_BUCKET": 0,
        "_INDEX_TYPE": "DELETION_VECTORS",
        "_FILE_NAME": "index-1",
        "_FILE_SIZE": 40,
        "_ROW_COUNT": 1,
        "_DELETIONS_VECTORS_RANGES": ranges,
    }
    yield "index manifest", encode_container(INDEX_SCHEMA, [record], codec="null"), _read_index
    yield "vector", encode_vectors({"a": np.arange(5, 90, 3, dtype=np.uint64)}, is_64_bit=False)[0], _read_vector
    yield "wide vector", encode_vectors({"a": np.arange(5, 90, 3, dtype=np.uint64)}, is_64_bit=True)[0], _read_vector
    rows = pa.table({"a": [f"text {number}" for number in range(200)]})
    # ORC is left out: no check of its footer covers all that Arrow's reader may not survive; only checksums protect it.
    for name in ("parquet", "avro"):
        for compression in ("none", "zstd"):
            path = folder / "whole" / f"data-{compression}.{name}"
            with create_data_file(IO, str(path), FIELDS, compression=compression, compression_level=1) as writer:
                writer.write(rows)
                writer.finish()
            yield f"{name} ({compression})", path.read_bytes(), _read_data
    for name, data in foreign_files():
        yield f"parquet (foreign, {name})", data, read_typed


def _damaged(data: bytes, chance: random.Random) -> bytes:
    """The bytes with a few of them changed, and seldom with some left out or put in; large numbers among them."""
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(data))
        number = chance.choice((1, -1)) << chance.randint(3, 62)
        new = chance.choice((chance.randbytes(1), chance.randbytes(1), _long(number), b"\xff" * 4, bytes(3)))
        data = data[:at] + new + data[at + (len(new) if chance.random() < 0.8 else chance.choice((0, 1, 5))) :]
    return data[: chance.randrange(1, len(data))] if chance.random() < 0.05 else data


def _blocks_of(data: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """The block of an Avro file, and what makes a file of another block."""
    file = AvroBlocks(data)
    ((count, block),) = file.plain()
    return block, lambda changed: container(file.schema, changed, count=count)


def make_damaged(folder: Path, seeds: range) -> Iterator[tuple[str, Path, Read]]:
    """Files of every kind, each damaged by every seed: its name, its file, and what reads it."""
    files: list[tuple[str, bytes, Callable[[bytes], bytes], Read]] = []
    for kind, data, read in _whole_files(folder):
        files.append((kind, data, bytes, read))
        if data.startswith(MAGIC) and "zstd" not in kind:
            files.append((f"block.{kind.partition(' (')[0].replace(' ', '-')}", *_blocks_of(data), read))
    bitmap = encode_roaring(np.arange(5, 200_000, 7, dtype=np.uint32))
    files.append(("bitmap", bitmap, _vector, _read_vector))
    files.append(("run bitmap", _roaring(containers=5, is_run=True), _vector, _read_vector))
    for index, (kind, data, wrapped, read) in enumerate(files):
        place = folder / f"damaged-{index}" / "manifest"
        place.mkdir(parents=True)
        for seed in seeds:
            path = place / f"x-{seed}.{kind.split()[0].rpartition(chr(46))[2]}"
            path.write_bytes(wrapped(_damaged(data, random.Random(f"{kind} {seed}"))))
            yield f"{kind}, seed {seed}", path, read


def _peak_bytes() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) << 10


def _mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def _read_whole(folder: Path) -> None:
    """Read an intact manifest and list."""
    entries = [plain_entry("data-1.parquet")]
    (folder / "intact" / "manifest").mkdir(parents=True, exist_ok=True)
    manifests = ManifestFiles(IO, TablePaths(str(folder / "intact")))
    metas = manifests.write(entries, names=FileNames(), schema_id=0)
    ENTRY_CACHE.clear()
    assert list(manifests.read(metas[0].file_name)) == entries


def main(folder: Path) -> None:
    """Read every bomb of the list in the folder, which another process has made."""
    given = json.loads((folder / "bombs.json").read_text())
    _read_whole(folder)  # so that libraries have their threads and tables
    resource.setrlimit(resource.RLIMIT_AS, (_mapped_bytes() + ADDRESS_BYTES,) * 2)
    for name, path, reader in given:
        Path("/proc/self/clear_refs").write_text("5")
        before, start = _peak_bytes(), time.process_time()
        try:
            outcome, text = "read", repr(READERS[reader](path))[:80]
        except LakelogError as error:
            outcome, text = type(error).__name__, str(error)
        except BaseException as error:  # noqa: BLE001 - what must not come is reported
            outcome, text = "foreign", repr(error)[:500]
        took, grown = time.process_time() - start, _peak_bytes() - before
        print(json.dumps([name, outcome, text, took, grown]), flush=True)


READERS: Mapping[str, Read] = {
    read.__name__: read
    for read in (
        _read_list,
        _read_manifest,
        _read_index,
        _read_data,
        read_typed,
        _read_vector,
        _read_schema,
        _read_snapshot,
        _read_hint,
    )
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
