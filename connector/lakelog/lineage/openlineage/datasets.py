"""Tables and sources as OpenLineage datasets: their names, versions, columns and counts.

A dataset is named by its location, according to the naming rules of OpenLineage: `file` and the path, `s3://bucket` and
the key, `hdfs://host:port` and the path. A table's name in its catalog is a symlink of the dataset. The version is the
snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping

from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    OutputDatasetFacet,
    dataset_version_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

from lakelog.filestore.io import warehouse_of
from lakelog.filestore.metadata.origins import ForeignSource, TableSource
from lakelog.filestore.metadata.tables import TableStore
from lakelog.filestore.schema import MAIN_BRANCH, TablePaths, TableSchema
from lakelog.lineage.columns.dataset_names import place_of
from lakelog.lineage.openlineage.producer import PRODUCER
from lakelog.lineage.openlineage.redaction import redacted

_LOCAL = "file"
_UNPLACED = "lakelog"  # the namespace of tables whose folder is not recorded


def output_of(
    table: TableStore,
    schema: TableSchema,
    snapshot_id: int,
    row_count: int | None,
    more: Mapping[str, DatasetFacet] | None = None,
) -> OutputDataset:
    """The sink at a snapshot. `row_count` is what its run has written so far; None means unknown. `more` are facets."""
    namespace, name = place_of(table.paths.own_root)
    facets = _facets(str(snapshot_id), schema) | _symlink(table.path, table.name) | dict(more or {})
    counts: dict[str, OutputDatasetFacet] = {}
    if row_count is not None:
        counts["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
            rowCount=row_count, producer=PRODUCER
        )
    return OutputDataset(namespace=namespace, name=name, facets=facets, outputFacets=counts)


def input_of(source: TableSource | ForeignSource, schema: TableSchema | None) -> InputDataset:
    """A source at the newest version that the job has read completely. `schema` None means unknown."""
    if isinstance(source, ForeignSource):
        name = source.format if source.name is None else redacted(source.name)
        version = None if source.end is None else redacted(source.end)
        return InputDataset(namespace=source.format, name=name, facets=_facets(version, None))
    version = None if source.end is None else str(source.end.snapshot_id)
    facets = _facets(version, schema)
    if source.path is None:
        return InputDataset(namespace=_UNPLACED, name=source.table, facets=facets)
    namespace, name = place_of(TablePaths(source.path, source.branch or MAIN_BRANCH).own_root)
    return InputDataset(namespace=namespace, name=name, facets=facets | _symlink(source.path, source.table))


def _facets(version: str | None, schema: TableSchema | None) -> dict[str, DatasetFacet]:
    facets: dict[str, DatasetFacet] = {}
    if version is not None:
        facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(
            datasetVersion=version, producer=PRODUCER
        )
    if schema is not None:
        fields = [
            schema_dataset.SchemaDatasetFacetFields(
                name=field.name, type=str(field.type), description=field.description, ordinal_position=number
            )
            for number, field in enumerate(schema.fields, start=1)
        ]
        facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=fields, producer=PRODUCER)
    return facets


def _symlink(path: str, name: str) -> dict[str, DatasetFacet]:
    namespace, folder = place_of(warehouse_of(path))
    warehouse = folder if namespace == _LOCAL else f"{namespace}/{folder.lstrip('/')}"
    identifier = symlinks_dataset.Identifier(namespace=warehouse, name=name, type="TABLE")
    return {"symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[identifier], producer=PRODUCER)}
