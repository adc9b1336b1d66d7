"""Figures that a broker serves for Prometheus."""

from __future__ import annotations

import urllib.request


def metrics_at(address: str) -> dict[str, float]:
    """The figures of the broker, by name, without labels."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines if line.startswith("forebay_")}
