"""Warnings about certificate and secret files of a process. Standard library only."""

from __future__ import annotations

from forebay.credentials.files import Account, CredentialFile, Kind, warnings_of
from forebay.credentials.report import CredentialReport
from forebay.credentials.validity import Validity, validities

__all__ = ["Account", "CredentialFile", "CredentialReport", "Kind", "Validity", "validities", "warnings_of"]
