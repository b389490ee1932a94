"""Objects of Python that implement interfaces of Spark.

Spark calls them in the driver, by the connection back to Python that `foreachBatch` uses too. A proxy answers every
method of its interfaces, those with a default as well: the default is not called.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, ClassVar  # Any: py4j gives Java objects without types

from lakelog.spark.catalog_plugin.java.java_errors import answering_java
from lakelog.spark.catalog_plugin.java.jvm import CONNECTOR, Jvm


class Proxy:
    """A Java object; `interfaces` of a subclass names what it implements, below `org.apache.spark.sql.connector`.

    Spark compares plans by their objects: proxies with the same `identity` are equal, so it begins with what they are.
    """

    interfaces: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Make the public methods answer in Java's exceptions, and name the interfaces as py4j expects them."""
        for name, member in list(vars(cls).items()):
            if isinstance(member, FunctionType) and not name.startswith("_"):
                setattr(cls, name, answering_java(member))
        cls.Java = type("Java", (), {"implements": [f"{CONNECTOR}.{name}" for name in cls.interfaces]})

    Java: ClassVar[type]

    def __init__(self, jvm: Jvm, identity: str) -> None:
        """A proxy for the session of `jvm`."""
        self.jvm = jvm
        self._identity = identity

    def toString(self) -> str:
        """The text of the object in plans and in logs."""
        return self._identity

    def hashCode(self) -> int:
        """Equal objects have the same."""
        return hash((type(self).__name__, self._identity)) & 0x7FFFFFFF

    def equals(self, other: Any) -> bool:  # a Java object, or a proxy
        """Whether the other object reads or writes the same."""
        return other is not None and str(other.toString()) == self._identity


class WithoutMetrics(Proxy):
    """An object whose interfaces ask for metrics: it has none."""

    def supportedCustomMetrics(self) -> Any:  # a Java CustomMetric[]
        """Metrics of the tasks: none."""
        return self.jvm.array(self.jvm.connector("metric.CustomMetric"), ())

    def reportDriverMetrics(self) -> Any:  # a Java CustomTaskMetric[]
        """Metrics of the driver: none."""
        return self.jvm.array(self.jvm.connector("metric.CustomTaskMetric"), ())
