"""Tokens are known by their hashes, and a file of hashes that is wrong is told without its content."""

from __future__ import annotations

from hashlib import sha256

import pytest

from holdfast.broker.core.tokens import TOKENS_MAX, TokenHashesInvalid, hash_of, parse


def test_a_token_is_known_by_its_hash_and_another_is_not() -> None:
    tokens = parse(f"{hash_of('spark', 'one').line}\n{hash_of('deliverer', 'two').line}\n")

    assert [tokens.name_of(token) for token in ("one", "two", "three", "")] == ["spark", "deliverer", None, None]


def test_a_line_is_what_sha256sum_prints_behind_a_name() -> None:
    assert hash_of("spark", "one").line == f"spark:sha256:{sha256(b'one').hexdigest()}"


def test_a_name_may_have_two_tokens_while_one_takes_the_place_of_the_other() -> None:
    tokens = parse(f"{hash_of('spark', 'old').line}\n{hash_of('spark', 'new').line}")

    assert [tokens.name_of("old"), tokens.name_of("new")] == ["spark", "spark"]


def test_empty_lines_and_remarks_say_nothing() -> None:
    tokens = parse(
        f"\n# who: the nightly job\n  {hash_of('spark', 'one').line.upper().replace('SHA256', 'sha256')}  \n"
    )

    assert tokens.name_of("one") == "SPARK"


@pytest.mark.parametrize(
    "text",
    ["spark:secret-token", "spark:sha256:abc", f"sha256:{'0' * 64}", f"two words:sha256:{'0' * 64}", "secret-token"],
)
def test_a_wrong_line_is_told_by_its_number_and_never_by_its_content(text: str) -> None:
    with pytest.raises(TokenHashesInvalid, match="line 2 is not NAME:sha256:HEX") as caught:
        parse(f"\n{text}\n")

    assert "secret-token" not in str(caught.value)


def test_a_file_without_a_token_would_lock_everybody_out() -> None:
    with pytest.raises(TokenHashesInvalid, match="holdfast token"):
        parse("# nothing yet\n")


def test_there_is_a_bound_since_each_call_is_compared_with_all() -> None:
    lines = [hash_of("many", str(number)).line for number in range(TOKENS_MAX + 1)]

    assert parse("\n".join(lines[1:])).name_of(str(TOKENS_MAX)) == "many"
    with pytest.raises(TokenHashesInvalid, match="1001 tokens are more than 1000"):
        parse("\n".join(lines))


@pytest.mark.parametrize("name", ["", "two words", "a:b", "x" * 65, "-a"])
def test_a_name_that_cannot_stand_in_a_file_is_refused(name: str) -> None:
    with pytest.raises(TokenHashesInvalid, match="the name"):
        hash_of(name, "one")
