"""Reads and merges kubeconfig files, as kubectl does.

Of several files the first to set a name or the current context wins, and paths in a file are relative to its folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Struct, field

T = TypeVar("T", bound="NamedEntry")
PATH_FIELDS = {
    "clusters": ("certificate_authority",),
    "users": ("client_certificate", "client_key", "token_file"),
}


class CredentialsError(Exception):
    """Says what failed and what to do; contains no secret. `permanent` means that trying again does not help."""

    def __init__(self, message: str, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent


class ClusterConfig(Struct, frozen=True, rename="kebab"):
    """An API server's address and TLS settings."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[dict[str, Any], ...] = ()

    @property
    def secure(self) -> bool:
        """Whether the server uses TLS."""
        return self.server.startswith("https://")


class Variable(Struct, frozen=True):
    """One environment variable of an exec plugin."""

    name: str
    value: str = ""


class Exec(Struct, frozen=True, rename="camel"):
    """A program that prints credentials."""

    command: str
    api_version: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    provide_cluster_info: bool = False
    interactive_mode: str = ""
    install_hint: str = ""


class UserConfig(Struct, frozen=True, rename="kebab"):
    """How we authenticate."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None
    act_as: str = field(default="", name="as")


class Context(Struct, frozen=True):
    """A pair of user and cluster."""

    cluster: str = ""
    user: str = ""


class NamedEntry(Struct, frozen=True):
    """A named entry; its content is in the subclass."""

    name: str


class NamedCluster(NamedEntry, frozen=True):
    """A cluster under its name."""

    cluster: ClusterConfig = ClusterConfig()


class NamedUser(NamedEntry, frozen=True):
    """A user under its name."""

    user: UserConfig = UserConfig()


class NamedContext(NamedEntry, frozen=True):
    """A context under its name."""

    context: Context = Context()


class Document(Struct, frozen=True, rename="kebab"):
    """One kubeconfig file, or several merged."""

    current_context: str = ""
    clusters: tuple[NamedCluster, ...] = ()
    users: tuple[NamedUser, ...] = ()
    contexts: tuple[NamedContext, ...] = ()


class ResolvedContext(NamedTuple):
    """The cluster and user of one context."""

    context: str
    cluster: ClusterConfig
    user: UserConfig


def resolve_context(paths: Sequence[Path], context: str = "") -> ResolvedContext:
    """The cluster and user of the context asked for, or of the current one."""
    merged = _merge([_read(path) for path in paths])
    where = " and ".join(str(path) for path in paths)
    name = context or merged.current_context
    if not name:
        raise CredentialsError(f"{where} sets no current-context: run `kubectl config use-context NAME`, or set one")
    selected = _find(merged.contexts, name, "context", where).context
    cluster = _find(merged.clusters, selected.cluster, "cluster", where).cluster
    user = _find(merged.users, selected.user, "user", where).user if selected.user else UserConfig()
    return ResolvedContext(name, cluster, user)


def _find(entries: Sequence[T], name: str, kind: str, where: str) -> T:
    for entry in entries:
        if entry.name == name:
            return entry
    names = ", ".join(sorted(entry.name for entry in entries)) or "none"
    raise CredentialsError(f"{where} has no {kind} named {name!r} (it has: {names})")


def _read(path: Path) -> Document:
    """One file, its relative paths made absolute."""
    try:
        plain = msgspec.yaml.decode(path.read_bytes())
    except OSError as error:
        raise CredentialsError(
            f"the kubeconfig {path} cannot be read: {error.strerror}; check its path and permissions"
        ) from None
    except msgspec.DecodeError:
        raise CredentialsError(f"the kubeconfig {path} is not valid YAML: correct it, or use another file") from None
    try:
        document = msgspec.convert(_without_nulls(plain) or {}, Document)
    except msgspec.ValidationError as error:
        raise CredentialsError(f"the kubeconfig {path} is invalid: {error}") from None
    return _with_absolute_paths(document, path.parent)


def _without_nulls(value: Any) -> Any:
    """A null stands for an absent field, as in Go."""
    if isinstance(value, Mapping):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _with_absolute_paths(document: Document, folder: Path) -> Document:
    def absolute(path: str) -> str:
        return str(folder / path) if path else ""

    clusters = tuple(
        msgspec.structs.replace(entry, cluster=_with_files(entry.cluster, PATH_FIELDS["clusters"], absolute))
        for entry in document.clusters
    )
    users = tuple(
        msgspec.structs.replace(
            entry, user=_with_command(_with_files(entry.user, PATH_FIELDS["users"], absolute), folder)
        )
        for entry in document.users
    )
    return msgspec.structs.replace(document, clusters=clusters, users=users)


def _with_files(value: Any, fields: Sequence[str], absolute: Callable[[str], str]) -> Any:
    return msgspec.structs.replace(value, **{name: absolute(getattr(value, name)) for name in fields})


def _with_command(user: UserConfig, folder: Path) -> UserConfig:
    """A command with a slash in it is a path in the file's folder; a bare name is searched for in PATH."""
    if user.exec is None or "/" not in user.exec.command:
        return user
    return msgspec.structs.replace(
        user, exec=msgspec.structs.replace(user.exec, command=str(folder / user.exec.command))
    )


def _merge(documents: Sequence[Document]) -> Document:
    """The first file to set something wins."""
    return Document(
        current_context=next((item.current_context for item in documents if item.current_context), ""),
        clusters=tuple(entry for item in documents for entry in item.clusters),
        users=tuple(entry for item in documents for entry in item.users),
        contexts=tuple(entry for item in documents for entry in item.contexts),
    )
