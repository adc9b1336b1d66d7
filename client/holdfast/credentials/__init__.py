"""Warnings about the files of certificates and secrets that a process uses. Standard library only."""

from __future__ import annotations

from holdfast.credentials.files import CredentialFile, Kind, warnings_of
from holdfast.credentials.report import CredentialReport
from holdfast.credentials.validity import Validity, validities

__all__ = ["CredentialFile", "CredentialReport", "Kind", "Validity", "validities", "warnings_of"]
