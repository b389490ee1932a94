"""Errors of lakelog as exceptions of Spark.

Spark's interfaces are called through proxies of the JVM. A proxy passes exceptions of Spark on that the interface
declares, such as NoSuchTableException, and unchecked ones. So an error of lakelog becomes a SparkRuntimeException whose
text is the sentence of the error; its cause names the error's class, by which `lakelog.spark.error_of` finds it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar  # Any: py4j gives Java objects without types

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException, convert_exception

from lakelog.common.errors import LakelogError

if TYPE_CHECKING:
    from lakelog.spark.catalog_plugin.java.jvm import Jvm

ANALYSIS = "org.apache.spark.sql.catalyst.analysis"
# The condition of Spark whose text is the given message alone.
_CONDITION = "_LEGACY_ERROR_USER_RAISED_EXCEPTION"
_PARAMETER = "errorMessage"

Answer = TypeVar("Answer")


def raised_in_java(exception: Any) -> Py4JJavaError:  # a Java Throwable
    """What a method of a proxy raises so that its caller in the JVM gets a Java exception."""
    return Py4JJavaError("", exception)


def spark_exception(jvm: Jvm, error: Exception) -> Py4JJavaError:
    """An error as a SparkRuntimeException, with the error's sentence first."""
    kind = type(error)
    cause = f"{kind.__module__}.{kind.__qualname__}: {error}"
    if isinstance(error, LakelogError):
        message = str(error)
    else:
        message = f"lakelog has failed, which is a fault of lakelog: {kind.__name__}: {error}"
        cause = "".join(traceback.format_exception(error))
    made = jvm.java_class("org.apache.spark.SparkRuntimeException")(
        _CONDITION,
        jvm.scala_map({_PARAMETER: message}),
        jvm.java_class("java.lang.RuntimeException")(cause),
        jvm.array(jvm.java_class("org.apache.spark.QueryContext"), ()),
        "",
    )
    return raised_in_java(made)


def answering_java(method: Callable[..., Answer]) -> Callable[..., Answer]:
    """A method of a proxy that raises Java exceptions alone."""

    @wraps(method)
    def answer(self: Any, *args: Any) -> Answer:
        try:
            return method(self, *args)
        except Py4JJavaError:
            raise
        except CapturedException as error:
            if error._origin is None:
                raise spark_exception(self.jvm, error) from error
            raise raised_in_java(error._origin) from error
        except Exception as error:
            raise spark_exception(self.jvm, error) from error

    return answer


def as_spark_error(jvm: Jvm, error: LakelogError) -> Exception:
    """An error of lakelog as PySpark raises the exceptions of Spark."""
    converted: Exception = convert_exception(spark_exception(jvm, error).java_exception)
    return converted
