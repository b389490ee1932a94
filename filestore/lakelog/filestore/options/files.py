"""Options of data files and manifests."""

from __future__ import annotations

from enum import StrEnum

from lakelog.common.options import Option, choice, parse_bool, parse_size_bytes, parse_whole, positive
from lakelog.filestore.options.parsing import by_level
from lakelog.filestore.options.stats_mode import stats_mode_text


class FileFormat(StrEnum):
    """The format of data files."""

    PARQUET = "parquet"
    ORC = "orc"
    AVRO = "avro"


FILE_FORMAT = Option(
    key="file.format",
    parse=choice(FileFormat),
    default=FileFormat.PARQUET,
    doc="The format of new data files: `parquet`, `orc` or `avro`.",
)
FILE_FORMAT_PER_LEVEL = Option(
    key="file.format.per.level",
    parse=by_level(choice(FileFormat)),
    default=None,
    doc="Formats of new data files by level, such as `0:avro,5:parquet`; `file.format` elsewhere.",
    kind="pairs of a level and a format with commas",
)
FILE_COMPRESSION = Option(
    key="file.compression",
    parse=str,
    default="zstd",
    doc="The compression of new data files: `zstd`, `gzip` or `none`, not in Avro also `snappy` and `lz4`. In Parquet, "
    "columns that hardly shrink, such as random numbers, are not compressed.",
)
FILE_COMPRESSION_PER_LEVEL = Option(
    key="file.compression.per.level",
    parse=by_level(str),
    default=None,
    doc="Compressions of new data files by level, such as `0:lz4,5:zstd`; `file.compression` elsewhere.",
    kind="pairs of a level and a compression with commas",
)
FILE_COMPRESSION_ZSTD_LEVEL = Option(
    key="file.compression.zstd-level",
    parse=parse_whole,
    default=1,
    doc="The level of zstd in Parquet and Avro: higher is smaller and slower. ORC files have level 1.",
)
FILE_BLOCK_SIZE = Option(
    key="file.block-size",
    parse=parse_size_bytes,
    default=None,
    doc="Bytes of one Parquet row group before compression, or of one ORC stripe; 64 and 16 mb unless it is set.",
)
ORC_TIMESTAMP_LTZ_LEGACY_TYPE = Option(
    key="orc.timestamp-ltz.legacy.type",
    parse=parse_bool,
    default=True,
    doc="Whether Paimon's readers and writers of ORC shift TIMESTAMP_LTZ by the zone of their machine. lakelog does "
    "not, and sets `false` in the tables that it makes with such columns.",
)
TARGET_FILE_SIZE = Option(
    key="target-file-size",
    parse=parse_size_bytes,
    default=None,
    doc="The size from which a writer starts another data file: 128 mb with a primary key, else 256 mb.",
)
THIN_MODE = Option(
    key="data-file.thin-mode",
    parse=parse_bool,
    default=False,
    doc="Whether data files leave out the key columns that they hold as value columns too.",
)
STATS_MODE = Option(
    key="metadata.stats-mode",
    parse=stats_mode_text,
    default="truncate(16)",
    doc="Which statistics of value columns manifests hold, to skip files by: `none`, `counts` of nulls, `full`, or "
    "`truncate(N)`: strings up to N characters, 16 by default. `fields.NAME.stats-mode` is for one column.",
    kind="none, counts, truncate(N) or full",
)
STATS_DENSE_STORE = Option(
    key="metadata.stats-dense-store",
    parse=parse_bool,
    default=True,
    doc="Whether columns without statistics are left out of them; Paimon before 0.9 reads `false` only.",
)
MANIFEST_COMPRESSION = Option(
    key="manifest.compression",
    parse=str,
    default="zstd",
    doc="The compression of manifests: `zstd`, `deflate` or `null`. `none` is the same as `null`, but Paimon's Java "
    "writers do not know `none`.",
)
MANIFEST_TARGET_FILE_SIZE = Option(
    key="manifest.target-file-size",
    parse=parse_size_bytes,
    default=8 << 20,
    doc="The size up to which small manifests are joined.",
)
MANIFEST_MERGE_MIN_COUNT = Option(
    key="manifest.merge-min-count",
    parse=positive,
    default=30,
    doc="Small manifests at which a commit joins them.",
)
MANIFEST_FULL_COMPACTION_SIZE = Option(
    key="manifest.full-compaction-threshold-size",
    parse=parse_size_bytes,
    default=16 << 20,
    doc="Bytes of manifests with deletes at which a commit rewrites all manifests.",
)
