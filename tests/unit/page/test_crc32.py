from __future__ import annotations

import zlib

from hypothesis import given
from hypothesis import strategies as st

from forebay.page.crc32 import crc32


@given(data=st.binary(max_size=5_000))
def test_it_is_the_crc_32_of_zlib(data: bytes) -> None:
    assert crc32(data) == crc32(memoryview(data)) == zlib.crc32(data)
