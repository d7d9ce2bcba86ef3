"""Decides what every test process starts with; leaves fixtures to the folders that need them."""

import asyncio

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Say that there is no event loop: looptime asks for one even in plain tests, and would leave it unclosed."""
    asyncio.set_event_loop(None)
