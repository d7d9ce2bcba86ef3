"""Decides who we are to which API server; leaves speaking to it to the transport."""

from trimtab.kube.credentials.find import Credentials, find
from trimtab.kube.credentials.kubeconfig import CredentialsError

__all__ = ["Credentials", "CredentialsError", "find"]
