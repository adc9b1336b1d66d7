"""Broker: accepts pages, stores them durably, and delivers them at the pace of their consumers."""

from __future__ import annotations
