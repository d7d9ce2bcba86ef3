"""Certificates, keys and kubeconfigs of the test control plane."""

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import trustme


class Credentials:
    """The CA of one control plane, and the files issued by it."""

    def __init__(self, folder: Path) -> None:
        """Create the CA, the server certificate and the key that signs service-account tokens."""
        self._folder = folder
        self._authority = trustme.CA()
        self.ca_file = folder / "ca.crt"
        self._authority.cert_pem.write_to_path(self.ca_file)
        self.server_cert, self.server_key = self._issue("server", "127.0.0.1", "localhost")
        _, self.token_key = self._issue("tokens", "tokens.invalid")

    def _issue(self, stem: str, *identities: str, user: str = "", group: str = "nobody") -> tuple[Path, Path]:
        cert = self._authority.issue_cert(*identities, common_name=user or stem, organization_name=group)
        paths = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        cert.cert_chain_pems[0].write_to_path(paths[0])
        cert.private_key_pem.write_to_path(paths[1])
        return paths

    def server_certificate(self, name: str, *others: str) -> tuple[Path, Path]:
        """A certificate and key for a server with these names on this machine."""
        return self._issue(name, name, *others, "127.0.0.1", "localhost")

    def client_certificate(self, user: str, group: str = "nobody") -> tuple[Path, Path]:
        """A client certificate and key for this user and group."""
        stem = "client-" + user.replace(":", "-")
        paths = self._folder / f"{stem}.crt", self._folder / f"{stem}.key"
        return paths if paths[0].exists() else self._issue(stem, "client.invalid", user=user, group=group)

    def tls(self, user: str = "", group: str = "nobody") -> ssl.SSLContext:
        """A context that trusts this CA only and, with a user, presents that user's certificate."""
        context = ssl.create_default_context(cafile=str(self.ca_file))
        if user:
            context.load_cert_chain(*map(str, self.client_certificate(user, group)))
        return context

    def certificate_kubeconfig(self, url: str, user: str, group: str = "nobody") -> Path:
        """A kubeconfig with a client certificate for this user and group."""
        cert, key = self.client_certificate(user, group)
        identity = {"client-certificate-data": base64_of(cert), "client-key-data": base64_of(key)}
        return self.kubeconfig(url, user.replace(":", "-"), identity)

    def kubeconfig(self, url: str, name: str, identity: dict[str, Any]) -> Path:
        """A kubeconfig of this name with this identity: a token, a certificate, or none."""
        cluster = {"server": url, "certificate-authority-data": base64_of(self.ca_file)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "rig",
            "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": name, "user": identity}],
            "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": name}}],
        }
        path = self._folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(json.dumps(content, indent=1))  # JSON is YAML, and needs no library here
        return path


def base64_of(path: Path) -> str:
    """A file's content in base64, as embedded in kubeconfigs."""
    return base64.b64encode(path.read_bytes()).decode()
