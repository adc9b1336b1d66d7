from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, tzinfo

import pytest

from forebay.cli.operate.logs import start_log
from forebay.cli.times import ZONE
from forebay.deliver import Reject
from forebay.deliver.targets.http_settings import HttpSettings
from forebay.text import LogFormat
from tests.support.targets.http_opened import BATCH, opened
from tests.support.targets.scripted_server import Answer, Request, serving


@pytest.fixture
def levels() -> Iterator[None]:
    """The levels of loggers as they were, afterwards."""
    loggers = logging.getLogger(), logging.getLogger("httpcore2")
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("levels")
def test_headers_that_a_target_echoes_are_in_no_line_of_the_log(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def script(request: Request) -> Answer:
        return Answer(403, {"X-Tenant": request.headers["X-Tenant"]}, b"")

    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    start_log("DEBUG", "%(name)s %(message)s", LogFormat.TEXT)
    logging.getLogger("forebay.test").debug("began")
    with serving(script) as server:
        settings = HttpSettings(url=server.url, headers=(("X-Tenant", "s3cret"),))
        with opened(settings) as target:
            outcome = target.send(BATCH)

    assert isinstance(outcome, Reject)
    log = capsys.readouterr().err
    assert "forebay.test began" in log
    assert "s3cret" not in log


@pytest.mark.usefixtures("levels")
@pytest.mark.parametrize(("zone", "shown"), [(None, "1970-01-01 09:00:01,500"), (UTC, "1970-01-01 00:00:01,500Z")])
def test_lines_have_local_times_or_marked_ones_in_utc(
    zone: tzinfo | None, shown: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    time.tzset()
    token = ZONE.set(zone)
    try:
        start_log("INFO", "%(asctime)s %(message)s", LogFormat.TEXT)
        logging.getLogger().handle(
            logging.makeLogRecord({"msg": "began", "levelno": 20, "created": 1.5, "msecs": 500.0})
        )
    finally:
        ZONE.reset(token)
        monkeypatch.undo()
        time.tzset()

    assert capsys.readouterr().err == f"{shown} began\n"
