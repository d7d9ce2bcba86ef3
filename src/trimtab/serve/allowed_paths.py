"""Paths that are served without asking who the caller is."""

from __future__ import annotations


class AlwaysAllowedPaths:
    """Paths as kube-scheduler takes them: whole ones, or with a `*` at the end that stands for any rest."""

    def __init__(self, paths: tuple[str, ...]) -> None:
        if wrong := [path for path in paths if "*" in path[:-1]]:
            raise ValueError(f"{wrong[0]!r} has a * that is not at its end, for example /healthz/*")
        bare = [path.removeprefix("/") for path in paths]
        self._exact = frozenset(path for path in bare if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)
