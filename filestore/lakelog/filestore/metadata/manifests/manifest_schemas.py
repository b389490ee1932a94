"""Avro schemas of manifests and their lists: names, order and types of Paimon's Java code.

Readers match fields by name; the six top fields of a manifest entry must have this order and never be null, and a
union has null first. Source: Paimon spec, "Manifest".
"""

from __future__ import annotations

import fastavro

CHECKSUMS_KEY = "_LAKELOG_CHECKSUMS"  # a field of lakelog, which other engines skip


def _optional(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": ["null", kind], "default": None}


def _stats_schema(name: str) -> dict[str, object]:
    counts = {"type": "array", "items": ["null", "long"]}
    return {
        "type": "record",
        "name": name,
        "fields": [
            {"name": "_MIN_VALUES", "type": "bytes"},
            {"name": "_MAX_VALUES", "type": "bytes"},
            _optional("_NULL_COUNTS", counts),
        ],
    }


_NAMES = {"type": "array", "items": "string"}
_FILE_SCHEMA = {
    "type": "record",
    "name": "record__FILE",
    "fields": [
        {"name": "_FILE_NAME", "type": "string"},
        {"name": "_FILE_SIZE", "type": "long"},
        {"name": "_ROW_COUNT", "type": "long"},
        {"name": "_MIN_KEY", "type": "bytes"},
        {"name": "_MAX_KEY", "type": "bytes"},
        {"name": "_KEY_STATS", "type": _stats_schema("record__FILE__KEY_STATS")},
        {"name": "_VALUE_STATS", "type": _stats_schema("record__FILE__VALUE_STATS")},
        {"name": "_MIN_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_MAX_SEQUENCE_NUMBER", "type": "long"},
        {"name": "_SCHEMA_ID", "type": "long"},
        {"name": "_LEVEL", "type": "int"},
        {"name": "_EXTRA_FILES", "type": _NAMES},
        _optional("_CREATION_TIME", {"type": "long", "logicalType": "timestamp-millis"}),
        _optional("_DELETE_ROW_COUNT", "long"),
        _optional("_EMBEDDED_FILE_INDEX", "bytes"),
        _optional("_FILE_SOURCE", "int"),
        _optional("_VALUE_STATS_COLS", _NAMES),
        _optional("_EXTERNAL_PATH", "string"),
        _optional("_FIRST_ROW_ID", "long"),
        _optional("_WRITE_COLS", _NAMES),
        _optional(CHECKSUMS_KEY, "bytes"),
    ],
}
ENTRY_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_TOTAL_BUCKETS", "type": "int"},
            {"name": "_FILE", "type": _FILE_SCHEMA},
        ],
    }
)
LIST_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_NUM_ADDED_FILES", "type": "long"},
            {"name": "_NUM_DELETED_FILES", "type": "long"},
            {"name": "_PARTITION_STATS", "type": _stats_schema("record__PARTITION_STATS")},
            {"name": "_SCHEMA_ID", "type": "long"},
            _optional("_MIN_BUCKET", "int"),
            _optional("_MAX_BUCKET", "int"),
            _optional("_MIN_LEVEL", "int"),
            _optional("_MAX_LEVEL", "int"),
            _optional("_MIN_ROW_ID", "long"),
            _optional("_MAX_ROW_ID", "long"),
        ],
    }
)
INDEX_SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "record",
        "namespace": "org.apache.paimon.avro.generated",
        "fields": [
            {"name": "_VERSION", "type": "int"},
            {"name": "_KIND", "type": "int"},
            {"name": "_PARTITION", "type": "bytes"},
            {"name": "_BUCKET", "type": "int"},
            {"name": "_INDEX_TYPE", "type": "string"},
            {"name": "_FILE_NAME", "type": "string"},
            {"name": "_FILE_SIZE", "type": "long"},
            {"name": "_ROW_COUNT", "type": "long"},
            _optional(
                "_DELETIONS_VECTORS_RANGES",
                {
                    "type": "array",
                    "items": [
                        "null",
                        {
                            "type": "record",
                            "name": "record__DELETIONS_VECTORS_RANGES",
                            "fields": [
                                {"name": "f0", "type": "string"},
                                {"name": "f1", "type": "int"},
                                {"name": "f2", "type": "int"},
                                _optional("_CARDINALITY", "long"),
                            ],
                        },
                    ],
                },
            ),
            _optional("_EXTERNAL_PATH", "string"),
            _optional(
                "_GLOBAL_INDEX",
                {
                    "type": "record",
                    "name": "record__GLOBAL_INDEX",
                    "fields": [
                        {"name": "_ROW_RANGE_START", "type": "long"},
                        {"name": "_ROW_RANGE_END", "type": "long"},
                        {"name": "_INDEX_FIELD_ID", "type": "int"},
                        _optional("_EXTRA_FIELD_IDS", {"type": "array", "items": "int"}),
                        _optional("_INDEX_META", "bytes"),
                        _optional("_SOURCE_META", "bytes"),
                    ],
                },
            ),
        ],
    }
)
