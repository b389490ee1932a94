"""`lakelog table describe`: a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: the values of a description

from lakelog.cli.console.arguments import HERE, AsJson, Branch, TableName, Warehouse, find_table
from lakelog.cli.console.door import print_lines
from lakelog.cli.console.output import to_json
from lakelog.cli.console.rows import Form, print_answer
from lakelog.common.timestamps import utc_of

if TYPE_CHECKING:
    from lakelog.catalog import Table


def describe(
    table: TableName,
    branch: Branch = None,
    as_json: AsJson = False,
    warehouse: Warehouse = HERE,
) -> None:
    """Print columns, keys, options, snapshot, size and log.

    Sizes and rows refer to the data files of the newest snapshot; `lakelog table count` counts the table's rows.
    """
    found = find_table(table, warehouse, branch=branch)
    fields = _description(found)
    if as_json:
        print_lines([to_json(fields)])
        return
    columns, options = fields.pop("columns"), fields.pop("options")
    parts = {"columns": columns, "options": [{"key": key, "value": value} for key, value in sorted(options.items())]}
    known = {name: value for name, value in fields.items() if value is not None}
    print_answer([known], parts, Form.GRID, is_list=False)


def _description(table: Table) -> dict[str, Any]:
    """What `Table.describe` finds, with times as strings, then the columns and the options."""
    schema, found = table.schema, table.describe()
    fields: dict[str, Any] = {}
    for name in found.__slots__:  # those of a dataclass, in their order
        value = getattr(found, name)
        is_time = name.endswith("_millis") and name != "retention_millis"
        fields[name.removesuffix("_millis") if is_time else name] = (
            utc_of(value) if is_time and value is not None else value
        )
    fields["columns"] = [
        {
            "name": field.name,
            "type": str(field.type),
            "key": _role(field.name, schema.primary_keys, schema.partition_keys),
            "comment": field.description,
        }
        for field in schema.fields
    ]
    return fields | {"options": dict(schema.options)}


def _role(name: str, primary_keys: tuple[str, ...], partition_keys: tuple[str, ...]) -> str | None:
    roles = [role for role, names in (("primary", primary_keys), ("partition", partition_keys)) if name in names]
    return ", ".join(roles) or None
