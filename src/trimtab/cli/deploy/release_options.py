"""From the flags of `trimtab deploy install` and `upgrade` to a Release: a valid template or file, and what it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.deploy.connection import BAD_INPUT, fail
from trimtab.cli.deploy.image_reference import is_tag, parse_image
from trimtab.config.diagnostics import ConfigError, Info, did_you_mean

if TYPE_CHECKING:
    from trimtab.apps.deploy.release import Inventory, Release
    from trimtab.config.configuration import Configuration

DEFAULT_TEMPLATE = "default"
STOCK_SCHEDULER = "default-scheduler"


@dataclass(frozen=True, slots=True)
class ReleaseFlags:
    """The flags; None where one is not given, which an upgrade fills in from what is installed."""

    namespace: str
    config: str | None
    image: str | None
    tag: str | None
    monitoring: bool | None
    labeller: bool | None
    rescheduler: bool | None
    network_policy: bool | None
    runbook_url_base: str | None


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """A configuration's name, text and included files; a template is one of this version."""

    name: str
    text: str
    is_template: bool = True
    files: tuple[tuple[str, str], ...] = ()


def release_options(function: Any) -> Any:
    """The flags that describe a release, as deploy.sh had them."""
    options = (
        click.option(
            "-c", "--config", metavar="TEMPLATE|FILE", help="A template's name (trimtab config template), or a file."
        ),
        click.option("--image", metavar="NAME", help="The image: NAME, NAME:TAG or NAME@DIGEST; default: trimtab."),
        click.option("-t", "--tag", metavar="TAG", help="The image's tag; default: this version."),
        click.option(
            "-m/ ", "--monitoring/--no-monitoring", default=None, help="ServiceMonitor, alerts and dashboards."
        ),
        click.option(
            "--runbook-url-base",
            metavar="URL",
            callback=_parse_url_base,
            help="Where the pages of docs/runbooks are served, for the links of alerts.",
        ),
        click.option("--labeller/--no-labeller", default=None, help="The labeller, too."),
        click.option("--rescheduler/--no-rescheduler", default=None, help="The rescheduler, too."),
        click.option("--network-policy/--no-network-policy", default=None, help="A NetworkPolicy, too."),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _parse_url_base(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A link's beginning without the last slash; empty goes back to the shipped one."""
    if value is not None and any(each.isspace() or not each.isprintable() for each in value):
        raise click.BadParameter(f"{value[:200]!r} is not the beginning of a URL")
    return None if value is None else value.rstrip("/")


def build_release(flags: ReleaseFlags, installed: Inventory | None = None, live: ConfigSource | None = None) -> Release:
    """The release; what no flag says is as installed. Exits with 2 if the configuration cannot be used."""
    from importlib.metadata import version

    from trimtab.apps.deploy.release import REPOSITORY, Release

    source = _config_source(flags.config) if flags.config is not None or live is None else live
    configuration = _parse(source)
    text = _with_lease(source, configuration, flags.namespace)
    known = installed.components if installed else ()
    repository, tag = _image(
        flags, installed.repository if installed else REPOSITORY, installed.tag if installed else ""
    )
    labels, leader = configuration.settings.labels, configuration.leader_election
    return Release(
        flags.namespace,
        version("trimtab"),
        source.name,
        text,
        source.is_template,
        repository,
        tag,
        _components(flags, known, configuration, source.name),
        source.files,
        _lease(configuration, flags.namespace),
        leader.enabled,
        labels is not None,
        labels is not None and labels.apply,
        _runbooks(flags, installed),
        (*_notes(source, configuration), *_lease_note(source, configuration, flags.namespace)),
        configuration.settings.rescheduling is not None,
    )


def _runbooks(flags: ReleaseFlags, installed: Inventory | None) -> str:
    if flags.runbook_url_base is not None:
        return flags.runbook_url_base
    return installed.runbook_url_base if installed else ""


def _config_source(given: str | None) -> ConfigSource:
    from trimtab.cli.config import templates

    written, name = templates(), DEFAULT_TEMPLATE if given is None else given
    if name in written:
        return ConfigSource(name, written[name])
    if not Path(name).is_file():
        near, listed = did_you_mean(name, written), ", ".join(written)
        fail(f"-c {name[:100]!r} is neither a template{near} nor a file; the templates are {listed}", BAD_INPUT)
    return _read_file(name)


def _read_file(name: str) -> ConfigSource:
    """The file and those it includes, which must lie next to it, as they will in the ConfigMap."""
    from trimtab.cli.config import load_with_text_or_exit, open_config
    from trimtab.config.manifests import configuration_text

    _, text = load_with_text_or_exit(open_config(name))
    folder, files = Path(name).parent, []
    for path, content in text.included:
        if Path(path).parent != folder:
            fail(
                f"{name}: {path} is in another folder, which a ConfigMap cannot have: put it next to {name}", BAD_INPUT
            )
        files.append((Path(path).name, content.decode()))
    return ConfigSource(Path(name).name, configuration_text(text.content, name), False, tuple(files))


def parse_config_map(data: Mapping[str, str], key: str) -> Configuration:
    """The configuration under this key of a ConfigMap, whose other keys are files that it may include."""
    from trimtab.apps import plugins
    from trimtab.config.kube_scheduler import parse
    from trimtab.sources.registry import SOURCE_SETTINGS

    def read(path: str) -> tuple[str, bytes]:
        name = str(Path(path))  # ./policy.yaml is policy.yaml
        if name not in data:
            raise OSError(f"{path} is not in the ConfigMap")
        return path, data[name].encode()

    installed = plugins.installed_for_rescheduling()
    return parse(data[key], key, plugins.installed_plugins(), SOURCE_SETTINGS, read, installed=installed)


def _parse(source: ConfigSource) -> Configuration:
    try:
        configuration = parse_config_map({**dict(source.files), source.name: source.text}, source.name)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(BAD_INPUT) from None
    if kubeconfig := configuration.client_connection.kubeconfig:
        fail(
            f"{source.name}: clientConnection.kubeconfig is {kubeconfig[:200]}, which does not exist in a pod: remove it, "
            "and the pod's own service account is used",
            BAD_INPUT,
        )
    return configuration


def _lease(configuration: Configuration, namespace: str) -> tuple[str, str]:
    """Namespace and name of the lease: next to the pods, except for a profile named default-scheduler."""
    leader = configuration.leader_election
    return (leader.namespace if _is_stock(configuration) else namespace), leader.name


def _is_stock(configuration: Configuration) -> bool:
    return any(profile.name == STOCK_SCHEDULER for profile in configuration.settings.profiles)


def _with_lease(source: ConfigSource, configuration: Configuration, namespace: str) -> str:
    from trimtab.apps.deploy.lease_setting import with_lease_namespace

    leader = configuration.leader_election
    if not leader.enabled or _lease(configuration, namespace) == (leader.namespace, leader.name):
        return source.text
    text = with_lease_namespace(source.text, namespace, source.name)
    changed = _parse(ConfigSource(source.name, text, source.is_template, source.files))
    if changed.leader_election.namespace != namespace:
        fail(
            f"{source.name}: set leaderElection.resourceNamespace to {namespace}, where the role allows the lease",
            BAD_INPUT,
        )
    return text


def _notes(source: ConfigSource, configuration: Configuration) -> tuple[str, ...]:
    """What the file's author should know; of our own templates only what needs a change of them."""
    return tuple(str(each) for each in configuration.notes if not (source.is_template and isinstance(each, Info)))


def _lease_note(source: ConfigSource, configuration: Configuration, namespace: str) -> tuple[str, ...]:
    """That the file's own lease is moved, if it is: whoever holds it there does not keep Trimtab from scheduling."""
    from trimtab.apps.deploy.lease_setting import written_lease_namespace

    leader, (where, name) = configuration.leader_election, _lease(configuration, namespace)
    written = written_lease_namespace(source.text, source.name)
    if source.is_template or not leader.enabled or written in ("", where):
        return ()
    return (
        f"{source.name}: the lease moves from {written}/{name} to {where}/{name}, where the role allows it: a scheduler that "
        "holds the old one and Trimtab no longer exclude each other, so scale that scheduler to 0 first",
    )


def _image(flags: ReleaseFlags, repository: str, tag: str) -> tuple[str, str]:
    """Repository and tag; a tag of its own stays with its repository, one that was never given is the version's."""
    if flags.image is not None:
        parsed = parse_image(flags.image)
        if parsed is None:
            shown, valid = repr(flags.image[:200]), "registry.example.com/trimtab:1.0 or NAME@sha256:…"
            fail(f"--image {shown} is not the name of an image, such as {valid}", BAD_INPUT)
        repository, tag = parsed
    if flags.tag is None:
        return repository, tag
    if "@" in repository or (flags.image is not None and tag):
        fail(f"the image {repository[:200]} has a tag or digest already: leave out -t, or give --image, too", BAD_INPUT)
    if not is_tag(flags.tag):
        fail(f"-t {flags.tag[:200]!r} is not a tag: use letters, digits, '_', '.' and '-', 128 at most", BAD_INPUT)
    return repository, flags.tag


def _components(
    flags: ReleaseFlags, known: tuple[str, ...], configuration: Configuration, file: str
) -> tuple[str, ...]:
    """Those asked for, and those without which this configuration cannot run."""
    settings = configuration.settings
    chosen = {
        "monitoring": flags.monitoring,
        "labeller": flags.labeller,
        "rescheduler": flags.rescheduler,
        "network-policy": flags.network_policy,
    }
    wanted = [name for name, flag in chosen.items() if flag or (flag is None and name in known)]
    if "podgroups" in settings.kinds:
        wanted.append("gang")
    if _is_stock(configuration):
        wanted.append("default-scheduler")
    if "labeller" in wanted and settings.labels is not None:
        _check_controller("labeller", configuration, file)
    if "rescheduler" in wanted and settings.rescheduling is not None:
        _check_controller("rescheduler", configuration, file)
    return tuple(wanted)


def _check_controller(name: str, configuration: Configuration, file: str) -> None:
    """Exit with the problems that would keep a process with this controller alone from starting."""
    from trimtab.apps.controller_configuration import configuration_for

    try:
        configuration_for((name,), configuration, file)
    except ConfigError as error:
        click.echo(str(error), err=True)
        raise SystemExit(BAD_INPUT) from None
