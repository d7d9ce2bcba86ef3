"""Settings for every test process."""

import asyncio

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Unset the event loop: looptime gets one even in synchronous tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)
