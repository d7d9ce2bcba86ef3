"""Decides who we are to which API server; leaves speaking to it to the transport."""

from trimtab.kube.credentials.discovery import Credentials, find_credentials
from trimtab.kube.credentials.kubeconfig import CredentialsError

__all__ = ["Credentials", "CredentialsError", "find_credentials"]
