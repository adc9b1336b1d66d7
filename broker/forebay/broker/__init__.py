"""The broker: takes pages in, keeps them durably, hands them out at the pace of whoever takes them."""

from __future__ import annotations
