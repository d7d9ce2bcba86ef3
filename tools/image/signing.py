"""Signs what is in dist/, with an Ed25519 key from a file: checksums of all files, and one signature of the checksums.

    SHA256SUMS        one line per file, as sha256sum writes them
    SHA256SUMS.sig    the signature, as openssl reads it

Whoever has the public key needs neither Trimtab nor the network to verify them:

    openssl pkeyutl -verify -rawin -pubin -inkey trimtab.pub -in SHA256SUMS -sigfile SHA256SUMS.sig && sha256sum -c SHA256SUMS

The key is made by `openssl genpkey -algorithm ed25519 -out KEY`, and is never kept in the repository.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from tools.image.folders import ImageError

SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"


def sign(folder: Path, key: Path) -> Path:
    """Write checksums and signature of all files there; the file of the checksums."""
    files = _files(folder)
    if not files:
        raise ImageError(f"{folder} has nothing to sign: run make image, make wheel or make sbom first")
    try:
        private = load_pem_private_key(key.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise ImageError(f"{key}: no private key in PEM without a password: {error}") from None
    if not isinstance(private, Ed25519PrivateKey):
        raise ImageError(f"{key}: not an Ed25519 key; make one with: openssl genpkey -algorithm ed25519 -out {key}")
    sums = "".join(f"{_digest(file)}  {file.name}\n" for file in files)
    (folder / SUMS).write_text(sums)
    (folder / SIGNATURE).write_bytes(private.sign(sums.encode()))
    return folder / SUMS


def verify(folder: Path, key: Path) -> list[str]:
    """The names of the files whose checksum and signature are right; an error if any file there is not one of them."""
    try:
        public = load_pem_public_key(key.read_bytes())
        sums, signature = (folder / SUMS).read_bytes(), (folder / SIGNATURE).read_bytes()
    except (OSError, ValueError) as error:
        raise ImageError(f"cannot verify {folder}: {error}") from None
    if not isinstance(public, Ed25519PublicKey):
        raise ImageError(f"{key}: not a public Ed25519 key")
    try:
        public.verify(signature, sums)
    except InvalidSignature:
        raise ImageError(f"{folder / SUMS} was not signed by the owner of {key}, or was changed since") from None
    expected = {name: digest for digest, _, name in (line.partition("  ") for line in sums.decode().splitlines())}
    found = {file.name: _digest(file) for file in _files(folder)}
    for name in sorted(expected.keys() | found.keys()):
        if name not in expected:
            raise ImageError(f"{folder / name} was not there when {SUMS} was signed")
        if found.get(name) != expected[name]:
            raise ImageError(f"{folder / name} {'was changed' if name in found else 'is missing'} since it was signed")
    return sorted(found)


def _files(folder: Path) -> list[Path]:
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(each for each in found if each.is_file() and each.name not in (SUMS, SIGNATURE))


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
