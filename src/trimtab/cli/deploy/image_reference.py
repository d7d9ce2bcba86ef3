"""Names of images, by the grammar of OCI references: NAME, NAME:TAG, NAME@DIGEST or NAME:TAG@DIGEST."""

from __future__ import annotations

import re

_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = rf"(?:{_HOST}(?::[0-9]+)?/)?{_PART}(?:/{_PART})*"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
_REFERENCE = re.compile(rf"(?P<name>{_NAME})(?::(?P<tag>{_TAG}))?(?P<digest>@{_DIGEST})?")
_SHA256 = re.compile(r"@sha256:[0-9a-f]{64}")
MAX_NAME = 255


def is_tag(text: str) -> bool:
    return re.fullmatch(_TAG, text) is not None


def parse_image(text: str) -> tuple[str, str] | None:
    """Repository and tag, which is empty if there is none; with a digest all of it is the repository. None if invalid."""
    found = _REFERENCE.fullmatch(text)
    if found is None or len(found["name"]) > MAX_NAME:
        return None
    if (digest := found["digest"]) is None:
        return found["name"], found["tag"] or ""
    return (text, "") if not digest.startswith("@sha256:") or _SHA256.fullmatch(digest) else None
