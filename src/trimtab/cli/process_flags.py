"""The flags of commands that ask a live process: where it is, and who asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypedDict, TypeVar

import click

from trimtab.serve.address import DEFAULT_ADDRESS

F = TypeVar("F", bound=Callable[..., Any])


class CallerFlags(TypedDict):
    """The flags that say who asks, beside the kubeconfig."""

    token: str
    token_file: str
    authority: str
    insecure: bool


_OPTIONS = (
    click.option(
        "--address",
        "--server",
        "address",
        default=DEFAULT_ADDRESS,
        show_default=True,
        help="The live process: HOST:PORT of its --serve, or https://HOST:PORT of its secure port.",
    ),
    click.option("--token", default="", help="With https: a bearer token; default: what the kubeconfig has."),
    click.option("--token-file", default="", help="With https: a file with a bearer token."),
    click.option("--certificate-authority", "authority", default="", help="With https: the CA of its certificate."),
    click.option("--insecure-skip-tls-verify", "insecure", is_flag=True, help="With https: accept any certificate."),
)


def process_options(command: F) -> F:
    """Add the flags to a command, which gets `address` and those of CallerFlags."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
