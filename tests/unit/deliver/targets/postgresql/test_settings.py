"""Options are checked before anything is connected, and a secret is no option."""

from __future__ import annotations

import pytest

from forebay.deliver import BatchLimits, TargetContext
from forebay.deliver.errors import InvalidOption
from forebay.deliver.targets import registry
from forebay.deliver.targets.postgresql.settings import settings_of


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "postgresql://u:secret@h/d"}, "must not contain a password"),
        ({"url": "postgresql://h"}, "must be postgresql://"),
        ({"url": "mysql://h/d"}, "must be postgresql://"),
        ({"url": "postgresql://h:x/d"}, "must be postgresql://"),
        ({"table": "readings; DROP TABLE x"}, "TABLE or SCHEMA.TABLE"),
        ({"rows": "xml"}, "must be one of record, json"),
        ({"upsert_by": "id"}, "only for rows=json"),
        ({"batch_records": "0"}, "must be an integer"),
        ({"timeout_s": "soon"}, "must be a number, or numbers with ms, s, m"),
        ({"timeout_s": "1h"}, "must be 0.1 to 600 seconds"),
        ({"create": "yes"}, "must be true or false"),
        ({"sslmode": "bogus"}, "'bogus': must be one of disable, allow, prefer, require, verify-ca, verify-full"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_option_says_what_is_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOption, match=message) as error:
        registry.create("postgresql", {"url": "postgresql://h/d", "table": "t", **options})

    assert "secret" not in str(error.value)


def test_the_target_raises_the_limits_of_a_batch_and_may_be_given_others() -> None:
    given = {"url": "postgresql://h/d", "table": "t"}
    context = TargetContext("readings", "default", 1)

    assert registry.create("postgresql", given).open(context) == BatchLimits(10_000, 8 << 20)
    tight = registry.create("postgresql", {**given, "batch_records": "7", "batch_bytes": "99"})
    assert tight.open(context) == BatchLimits(7, 99)


def test_the_messages_name_the_host_that_the_url_gives() -> None:
    settings = settings_of(url="postgresql://%2Frun%2FPostgres/d", table="t", sslmode="verify-full")

    assert (settings.address.host, settings.address.sslmode) == ("/run/Postgres", "verify-full")
    assert settings.shown == "/run/Postgres/d table t"
