"""Signatures of releases (S-29): what openssl says of them, and that no changed byte passes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tools.image.__main__ import main
from tools.image.folders import ImageError
from tools.image.signing import SIGNATURE, SUMS, sign, verify

PEM = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    """A private key and its public one."""
    key = Ed25519PrivateKey.generate()
    private, public = tmp_path / "key", tmp_path / "key.pub"
    private.write_bytes(key.private_bytes(*PEM))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def dist(tmp_path: Path, keys: tuple[Path, Path]) -> Path:
    """Two files, signed."""
    folder = tmp_path / "dist"
    folder.mkdir()
    (folder / "trimtab.whl").write_bytes(b"wheel")
    (folder / "trimtab-image.tar").write_bytes(b"image")
    sign(folder, keys[0])
    return folder


def test_what_was_signed_is_verified(dist: Path, keys: tuple[Path, Path]) -> None:
    """Also a second time: signatures do not sign themselves."""
    assert ["trimtab-image.tar", "trimtab.whl"] == verify(dist, keys[1])
    sign(dist, keys[0])
    assert ["trimtab-image.tar", "trimtab.whl"] == verify(dist, keys[1])


@pytest.mark.parametrize("name", ["trimtab.whl", "trimtab-image.tar", SUMS, SIGNATURE])
def test_a_changed_byte(dist: Path, keys: tuple[Path, Path], name: str) -> None:
    """Of any file, signed or signing: refused, with its name."""
    content = bytearray((dist / name).read_bytes())
    content[0] ^= 1
    (dist / name).write_bytes(content)
    with pytest.raises(ImageError, match="changed since"):
        verify(dist, keys[1])


def test_a_file_that_is_missing_and_one_that_was_not_there(dist: Path, keys: tuple[Path, Path]) -> None:
    """Neither is covered by the signature."""
    (dist / "trimtab.whl").rename(dist / "other.whl")
    with pytest.raises(ImageError, match=r"other\.whl was not there"):
        verify(dist, keys[1])
    (dist / "other.whl").unlink()
    with pytest.raises(ImageError, match=r"trimtab\.whl is missing"):
        verify(dist, keys[1])


def test_another_key(dist: Path, tmp_path: Path) -> None:
    """Whoever signs with a key of their own is not us."""
    stranger = Ed25519PrivateKey.generate()
    public = tmp_path / "stranger.pub"
    public.write_bytes(stranger.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(ImageError, match="was not signed by the owner"):
        verify(dist, public)


def test_openssl_and_sha256sum_agree(dist: Path, keys: tuple[Path, Path]) -> None:
    """The commands of the documentation, as users run them."""
    if shutil.which("openssl") is None or shutil.which("sha256sum") is None:
        pytest.skip("no openssl or sha256sum here")
    openssl = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", str(keys[1])]
    subprocess.run([*openssl, "-in", SUMS, "-sigfile", SIGNATURE], cwd=dist, check=True, capture_output=True)
    subprocess.run(["sha256sum", "-c", SUMS], cwd=dist, check=True, capture_output=True)


def test_bad_keys_and_nothing_to_sign(
    dist: Path, keys: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 and one line with the remedy."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "curve").write_bytes(generate_private_key(SECP256R1()).private_bytes(*PEM))
    for folder, key, said in (
        (dist, tmp_path / "none", "no private key in PEM"),
        (dist, keys[1], "no private key in PEM"),
        (dist, tmp_path / "curve", "not an Ed25519 key; make one with: openssl genpkey"),
        (tmp_path / "empty", keys[0], "has nothing to sign: run make image"),
    ):
        assert 1 == main(["sign", "--key", str(key), "--output", str(folder)])
        assert said in capsys.readouterr().err
    assert 0 == main(["verify", "--key", str(keys[1]), "--output", str(dist)])
    assert "trimtab.whl" in capsys.readouterr().out
