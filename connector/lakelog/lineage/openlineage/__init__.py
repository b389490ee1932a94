"""OpenLineage: RunEvents of committed batches, for receivers such as Marquez. Needs the extra `openlineage`."""

from lakelog.common.errors import InvalidRequestError

try:
    import openlineage.client  # noqa: F401
except ModuleNotFoundError as error:
    raise InvalidRequestError(
        f"lakelog.lineage.openlineage needs OpenLineage's client, and {error.name} is not installed; "
        "pip install 'lakelog[openlineage]'"
    ) from error

from lakelog.lineage.openlineage.emitter import OpenLineageEmitter
from lakelog.lineage.openlineage.events import Engine

__all__ = ["Engine", "OpenLineageEmitter"]
