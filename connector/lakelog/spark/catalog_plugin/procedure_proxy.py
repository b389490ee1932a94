"""The procedures of a catalog for Spark's CALL.

Source: Spark, `org.apache.spark.sql.connector.catalog`: ProcedureCatalog, and its package `procedures`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any  # Any: py4j gives Java objects without types

from lakelog.catalog.columns.written_ddl import quoted_name
from lakelog.catalog.procedures.procedure import TABLE, Procedure
from lakelog.catalog.procedures.procedures import PROCEDURES
from lakelog.spark.catalog_plugin.java.local_rows import LocalRows
from lakelog.spark.catalog_plugin.java.proxy import Proxy
from lakelog.spark.session import session_zone

if TYPE_CHECKING:
    from lakelog.catalog import Catalog
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

DATABASE = "sys"
_PARTS = 2  # of the name of a table
_TYPES = {"STRING": "StringType", "BIGINT": "LongType", "BOOLEAN": "BooleanType"}
_TYPE_CLASS = "org.apache.spark.sql.types.DataTypes"


def procedure_names() -> list[str]:
    """The names of all procedures, sorted."""
    return sorted(PROCEDURES)


class UnboundProcedure(Proxy):
    """A procedure before its arguments are known."""

    interfaces = ("catalog.procedures.UnboundProcedure",)

    def __init__(self, jvm: Jvm, catalog_name: str, catalog: Catalog, procedure: Procedure) -> None:
        super().__init__(jvm, f"lakelog procedure {procedure.name}")
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._procedure = procedure

    def name(self) -> str:
        """The name."""
        return self._procedure.name

    def description(self) -> str:
        """What it does."""
        return self._procedure.comment

    def bind(self, given: Any) -> Proxy:  # a Java StructType; Spark checks it against the parameters
        """The procedure with its parameters."""
        return BoundProcedure(self.jvm, self._catalog_name, self._catalog, self._procedure)


class BoundProcedure(Proxy):
    """A procedure that is called."""

    interfaces = ("catalog.procedures.BoundProcedure",)

    def __init__(self, jvm: Jvm, catalog_name: str, catalog: Catalog, procedure: Procedure) -> None:
        super().__init__(jvm, f"bound lakelog procedure {procedure.name}")
        self._catalog_name = catalog_name
        self._catalog = catalog
        self._procedure = procedure

    def name(self) -> str:
        """The name."""
        return self._procedure.name

    def description(self) -> str:
        """What it does."""
        return self._procedure.comment

    def isDeterministic(self) -> bool:
        """A procedure changes a table, or asks for its state."""
        return False

    def parameters(self) -> Any:  # a Java ProcedureParameter[]
        """The parameters; all but the table are null by default, since one may be given under another name."""
        kind = self.jvm.connector("catalog.procedures.ProcedureParameter")
        types = self.jvm.java_class(_TYPE_CLASS)
        made = []
        for parameter in self._procedure.parameters:
            builder = getattr(kind, "in")(parameter.name, getattr(types, _TYPES[parameter.kind]))
            builder = builder.comment(parameter.comment)
            made.append((builder if parameter is TABLE else builder.defaultValue("NULL")).build())
        return self.jvm.array(kind, made)

    def call(self, row: Any) -> Any:  # Java: an InternalRow; an Iterator<Scan>
        """Run the procedure; its answer is one scan of rows."""
        values: dict[str, object] = {}
        for at, parameter in enumerate(self._procedure.parameters):
            if row.isNullAt(at):
                continue
            match parameter.kind:
                case "STRING":
                    values[parameter.name] = str(row.getString(at))
                case "BIGINT":
                    values[parameter.name] = int(row.getLong(at))
                case _:
                    values[parameter.name] = bool(row.getBoolean(at))
        if "table" in values:
            values["table"] = self._full_name(str(values["table"]))
        found = self._procedure.call(self._catalog, values, zone=session_zone(self.jvm.session))
        if "table" in values:  # what CACHE TABLE holds
            parts = (self._catalog_name, *str(values["table"]).split("."))
            self.jvm.session.catalog.refreshTable(".".join(quoted_name(part) for part in parts))
        answer = LocalRows(self.jvm, f"lakelog answer of {self._procedure.name}", found)
        scans = self.jvm.java_class("java.util.ArrayList")()
        scans.add(answer)
        return scans.iterator()

    def _full_name(self, given: str) -> str:
        """`database.table` of a name that may begin with the catalog, or be in the current database."""
        parts = given.split(".")
        if len(parts) > _PARTS and parts[0] == self._catalog_name:
            return ".".join(parts[1:])
        if len(parts) < _PARTS:
            manager = self.jvm.session._jsparkSession.sessionState().catalogManager()
            if str(manager.currentCatalog().name()) == self._catalog_name:
                return ".".join([*manager.currentNamespace(), given])
        return given
