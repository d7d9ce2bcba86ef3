"""Settings for every test process."""

import asyncio

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are generated says something about the machine, not about the code.
settings.register_profile("trimtab", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("trimtab")


def pytest_configure(config: pytest.Config) -> None:
    """Unset the event loop: looptime gets one even in synchronous tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)
