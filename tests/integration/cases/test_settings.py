"""Wrong settings, wherever they come from: refused with name, value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.settings import SettingsError, load
from forebay.client import Client, SinkNotFound
from forebay.errors.reasons import Reason
from tests.support.refusals import failure

WRONG: list[tuple[str, Any, str]] = [
    ("max_disk_cache", -1, "number"),
    ("buffer_page_size", 0, "1 to 65,536 records"),
    ("resend_interval_s", -1.0, "0 to 1 h"),
    ("max_total_bytes", 0, "at least 1 KiB"),
    ("max_age_s", 0.5, "0 (unlimited) or 1 s to 3,650 d"),
    ("max_age_s", -1.0, "0 (unlimited) or 1 s to 3,650 d"),
    ("overflow", "BLOCK", "DROP_OLDEST or REJECT"),
    ("partitions", 0, "1 to 1,024"),
]
"""Name, value, and a part of what is allowed."""


def stem(name: str) -> str:
    return name.removesuffix("_s")


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
def test_wrong_settings_are_refused_at_creation_and_update(name: str, value: Any, allowed: str, client: Client) -> None:
    """Disk -1, page 0, interval < 0, ...: refused, naming the field, the value and what is allowed."""
    client.sinks.create("there")
    before = client.sinks.get("there")
    settings: dict[str, Any] = {name: value}
    with failure(Reason.INVALID_SETTING) as at_creation:
        client.sinks.create("orders", **settings)
    with failure(Reason.INVALID_SETTING) as by_update:
        client.sinks.update("there", **settings)

    for refused in (at_creation.value, by_update.value):
        assert refused.facts["field"].startswith(stem(name))
        assert refused.facts["value"]
        assert allowed in refused.facts["allowed"]
    with pytest.raises(SinkNotFound):
        client.sinks.get("orders")
    assert client.sinks.get("there") == before


@pytest.mark.parametrize(("name", "value", "allowed"), WRONG)
@pytest.mark.parametrize("where", ["file", "environment"])
def test_wrong_settings_are_refused_in_the_defaults_of_the_broker(
    where: str, name: str, value: Any, allowed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text(f"[sink_defaults]\n{name} = {value!r}\n" if where == "file" else "")
    if where == "environment":
        monkeypatch.setenv(f"FOREBAY_SINK_DEFAULTS__{name.upper()}", str(value))

    with pytest.raises(SettingsError) as refused:
        load(path)

    assert stem(name) in str(refused.value)
    assert allowed in str(refused.value)


def test_both_levels_hold_the_sinks_own_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "forebay.toml"
    path.write_text("[sink_defaults]\nmax_age_s = 86400.0\nclean_cache_at_stop = true\nmax_disk_cache = 5\n")
    monkeypatch.setenv("FOREBAY_SINK_DEFAULTS__MAX_DISK_CACHE", "1024000")
    defaults = load(path).sink_defaults
    with BrokerServer.in_memory(sink_defaults=defaults) as server, Client(server.endpoint) as client:
        made = client.sinks.create("orders", max_age_s=60.0).settings
        changed = client.sinks.update("orders", clean_cache_at_stop=False, memory_overload_protection=False).settings

    assert (made.max_disk_cache, made.max_age_s, made.clean_cache_at_stop) == (1_024_000, 60.0, True)
    assert (changed.max_disk_cache, changed.max_age_s) == (1_024_000, 60.0)
    assert (changed.clean_cache_at_stop, changed.memory_overload_protection) == (False, False)
