"""Journals in object stores: the answers of services that have no room."""

from __future__ import annotations

import pytest

from forebay.broker.storage.replication.engine import EngineAway, EngineFull
from forebay.broker.storage.replication.engines.addresses import open_engine
from tests.support.targets.scripted_server import Answer, serving


def s3_error(code: str) -> bytes:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>of the service</Message></Error>'.encode()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(507), EngineFull),
        (Answer(507, body=s3_error("XMinioStorageFull")), EngineFull),
        (Answer(403, body=s3_error("QuotaExceeded")), EngineFull),
        (Answer(400, body=s3_error("XMinioAdminBucketQuotaExceeded")), EngineFull),
        (Answer(403, body=s3_error("AccessDenied")), EngineAway),
        (Answer(503, body=s3_error("SlowDown")), EngineAway),
    ],
)
def test_a_service_without_room_or_quota_is_full_and_another_refusal_is_not(
    answer: Answer, kind: type[EngineAway], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    with serving(lambda _: answer) as server:
        engine = open_engine(f"s3://bucket/journal?endpoint=http://127.0.0.1:{server.port}&region=eu-1")

        with pytest.raises(EngineAway) as refused:
            engine.create(0, [b"record"])

    assert type(refused.value) is kind
    assert str(refused.value).startswith("s3://bucket/journal: ")
