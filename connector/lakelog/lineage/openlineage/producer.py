"""What OpenLineage's events and facets name as their producer."""

from __future__ import annotations

from importlib.metadata import version

LAKELOG = version("lakelog")
PRODUCER = f"urn:lakelog:{LAKELOG}"
INTEGRATION = "LAKELOG"
