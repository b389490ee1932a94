"""How hypothesis tries histories on a real broker."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, settings

from tests.support.examples import examples


def broker_settings(count: int) -> settings:
    """So many examples, each with tables and topics of its own, which take seconds."""
    return settings(
        max_examples=examples(count),
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),  # shrinking would make topics for minutes
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
