"""The flag `--scheduler-config NAME=FILE`: the profiles of other schedulers in the cluster, whose pods may be moved, too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NoReturn

import click

if TYPE_CHECKING:
    from trimtab.config.configuration import Configuration
    from trimtab.core.framework.profile import Profile

FLAG = "--scheduler-config"
scheduler_config_option = click.option(
    FLAG,
    "schedulers",
    metavar="NAME=FILE",
    multiple=True,
    help="The KubeSchedulerConfiguration of another scheduler, whose pods may be moved; without it default-scheduler has "
    "the stock profile.",
)


def read_profiles(
    schedulers: Iterable[str], read: Callable[[str], Configuration], fail: Callable[[str], NoReturn]
) -> Mapping[str, Profile]:
    """The profiles of other schedulers, by name."""
    found: dict[str, Profile] = {}
    for given in schedulers:
        name, equals, file = given.partition("=")
        if not (name and equals and file):
            fail(f"{FLAG}: {given!r} is not NAME=FILE, such as default-scheduler=scheduler.yaml")
        if name in found:
            fail(f"{FLAG}: {name} is given twice: leave one out")
        settings = read(file).settings
        profile = settings.profile_of(name)
        if profile is None:
            fail(f"{FLAG}: {file} has no profile {name}: it has {', '.join(each.name for each in settings.profiles)}")
        found[name] = profile
    return found
