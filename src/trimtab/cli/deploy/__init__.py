"""`trimtab deploy`: installs Trimtab into a cluster, shows its state and logs, checks it and removes it."""

from __future__ import annotations

import click

from trimtab.cli.deploy.check import test
from trimtab.cli.deploy.install import install, manifests, upgrade
from trimtab.cli.deploy.operate import logs, status, uninstall


@click.group()
def command() -> None:
    """Install Trimtab into the cluster of the kubeconfig, check it, and remove it; needs neither kubectl nor Helm.

    Exit codes: 0 done, 1 failed or unhealthy, 2 invalid flags, configuration or kubeconfig.
    """


for each in (install, upgrade, status, logs, test, uninstall, manifests):
    command.add_command(each)
