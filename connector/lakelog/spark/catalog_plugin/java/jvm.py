"""Access to the JVM of a session: classes, arrays and values of Spark's interfaces.

A class that is named by attributes, `jvm.org.apache...`, costs a call per attribute; here it is found once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any  # Any: py4j gives Java objects without types

from py4j.java_gateway import JavaClass
from pyspark.sql import SparkSession
from pyspark.sql import types as spark

from lakelog.catalog.columns.written_ddl import quoted_name

DEFAULT = "CURRENT_DEFAULT"  # the key of a column's metadata for its default, in Spark too
_SCHEMAS_MAX = 256
CONNECTOR = "org.apache.spark.sql.connector"


class Jvm:
    """The JVM of a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        """Connect to nothing: the session has a gateway already."""
        self.session = session
        self.gateway: Any = session.sparkContext._gateway
        self._classes: dict[str, Any] = {}
        self._schemas: dict[str, tuple[Any, Any]] = {}

    @contextmanager
    def active_session(self) -> Iterator[None]:
        """Make the session the active one of this thread: its conf, such as the time zone, is that of literals."""
        sessions = self.scala_object("org.apache.spark.sql.classic.SparkSession")
        before = sessions.getActiveSession()
        sessions.setActiveSession(self.session._jsparkSession)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())

    def java_class(self, name: str) -> Any:  # a Java class
        """A Java class by its full name, with `$` before the name of an inner class."""
        if name not in self._classes:
            self._classes[name] = JavaClass(name, self.gateway._gateway_client)
        return self._classes[name]

    def connector(self, name: str) -> Any:  # a Java class
        """A class of `org.apache.spark.sql.connector`."""
        return self.java_class(f"{CONNECTOR}.{name}")

    def references(self, columns: Iterable[str]) -> Any:  # a Java NamedReference[]
        """References to columns; Java would parse a name that is not quoted."""
        column = self.connector("expressions.Expressions").column
        return self.array(self.connector("expressions.NamedReference"), [column(quoted_name(one)) for one in columns])

    def scala_object(self, name: str) -> Any:  # a Scala object
        """A singleton of Scala by the name of its class, without `$`."""
        return getattr(self.java_class(f"{name}$"), "MODULE$")

    def array(self, kind: Any, items: Iterable[Any]) -> Any:  # a Java class, its objects; a Java array
        """A Java array of objects of the class `kind`."""
        found = list(items)
        made = self.empty_array(kind, len(found))
        for at, item in enumerate(found):
            made[at] = item
        return made

    def empty_array(self, kind: Any, size: int) -> Any:  # a Java class; a Java array
        """A Java array of nulls."""
        return self.gateway.new_array(kind, size)

    def strings(self, items: Iterable[str]) -> Any:  # a Java String[]
        """A Java array of strings."""
        return self.array(self.java_class("java.lang.String"), items)

    def string_map(self, values: Mapping[str, Any]) -> Any:  # a java.util.Map
        """A Java map with strings as keys."""
        made = self.java_class("java.util.HashMap")()
        for key, value in values.items():
            made.put(key, value)
        return made

    def java_set(self, items: Iterable[Any]) -> Any:  # Java objects; a java.util.Set
        """A Java set."""
        made = self.java_class("java.util.HashSet")()
        for item in items:
            made.add(item)
        return made

    def constants(self, kind: str, names: Iterable[str]) -> Any:  # a java.util.Set
        """Constants of an enum of the connector API, as a set."""
        enum = self.connector(kind)
        return self.java_set(getattr(enum, name) for name in names)

    def none(self) -> Any:  # a scala.Option
        """Scala's None."""
        return self.scala_object("scala.None")

    def some(self, value: Any) -> Any:  # a scala.Option
        """A Scala Option with a value."""
        return self.java_class("scala.Some")(value)

    def scala_map(self, values: Mapping[str, Any]) -> Any:  # a Scala immutable Map
        """A Scala map with strings as keys."""
        return self.java_class("org.apache.spark.api.python.PythonUtils").toScalaMap(self.string_map(values))

    def scala_seq(self, values: Sequence[Any]) -> Any:  # Java objects; a Scala Seq
        """A Scala sequence."""
        made = self.java_class("java.util.ArrayList")()
        for value in values:
            made.add(value)
        return self.java_class("org.apache.spark.api.python.PythonUtils").toSeq(made)

    def options(self, values: Mapping[str, str]) -> Any:  # a CaseInsensitiveStringMap
        """Options as Spark's sources take them."""
        return self.java_class("org.apache.spark.sql.util.CaseInsensitiveStringMap")(self.string_map(values))

    def schema(self, schema: spark.StructType) -> Any:  # a Java StructType
        """A schema as a Java object."""
        return self._of_schema(schema)[0]

    def columns(self, schema: spark.StructType) -> Any:  # a Java Column[]
        """The columns of a schema, with their comments."""
        return self._of_schema(schema)[1]

    def _of_schema(self, schema: spark.StructType) -> tuple[Any, Any]:
        """A schema in both forms, made once: each column costs a call."""
        text = schema.json()
        found = self._schemas.get(text)
        if found is None:
            java = self.scala_object("org.apache.spark.sql.types.DataType").fromJson(text)
            column, made = self.connector("catalog.Column"), []
            for field, member in zip(schema.fields, java.fields(), strict=True):
                said = field.metadata or {}
                told = (field.name, member.dataType(), field.nullable, said.get("comment"))
                default = said.get(DEFAULT)
                made.append(
                    column.create(*told, None)
                    if default is None
                    else column.create(*told, self._default(default, member.dataType()), None)
                )
            if len(self._schemas) >= _SCHEMAS_MAX:
                self._schemas.clear()
            found = self._schemas[text] = (java, self.array(column, made))
        return found

    def _default(self, sql: str, kind: Any) -> Any:  # Java: a DataType; a ColumnDefaultValue
        """A default for INSERT; rows that exist have null, as our reads give it."""
        null = self.connector("expressions.LiteralValue")(None, kind)
        return self.connector("catalog.ColumnDefaultValue")(sql, null)

    @staticmethod
    def python_schema(schema: Any) -> spark.StructType:  # a Java StructType
        """A Java schema as a Python object."""
        return spark.StructType.fromJson(json.loads(schema.json()))
