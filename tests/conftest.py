"""Settings for every test process."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples are generated says something about the machine, not about the code.
settings.register_profile("trimtab", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("trimtab")


def pytest_configure(config: pytest.Config) -> None:
    """Unset the event loop: looptime gets one even in synchronous tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import only files with live tests if these are asked for: every process of xdist would import all others, too."""
    if collection_path.suffix == ".py" and config.getoption("markexpr").startswith("live"):
        return True if "mark.live" not in collection_path.read_text() else None
    return None
