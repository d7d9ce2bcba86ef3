"""Credentials for the API server, from a kubeconfig or a service account."""

from trimtab.kube.credentials.discovery import Credentials, find_credentials
from trimtab.kube.credentials.kubeconfig import CredentialsError

__all__ = ["Credentials", "CredentialsError", "find_credentials"]
