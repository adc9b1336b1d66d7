from __future__ import annotations

import pytest

from forebay.broker.storage.records.json_line import decode_line, encode_line


def test_a_document_is_read_as_it_was_written() -> None:
    content = encode_line({"b": 1, "a": ["é", None]})

    assert content.startswith(b'{"a":')
    assert decode_line(content) == {"a": ["é", None], "b": 1}


@pytest.mark.parametrize("at", range(18))
def test_each_changed_byte_and_each_end_before_the_last_one_is_damage(at: int) -> None:
    content = encode_line({"name": 1})

    assert decode_line(content[:at]) is None
    assert decode_line(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]) is None
