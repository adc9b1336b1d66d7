"""Symbols of reflection: the file of each is found, whatever its kind."""

from __future__ import annotations

import pytest

from forebay.broker.rpc.transport.reflection import V1, SymbolPool


@pytest.mark.parametrize(
    "symbol", [V1, f"{V1}.ServerReflectionInfo", "grpc.reflection.v1.ServerReflectionRequest.list_services"]
)
def test_the_file_of_version_v1_defines_its_symbols(symbol: str) -> None:
    found = SymbolPool().FindFileContainingSymbol(symbol)

    assert (found.name, found.package) == ("grpc/reflection/v1/reflection.proto", "grpc.reflection.v1")


def test_a_member_is_defined_where_its_message_is() -> None:
    pool = SymbolPool()

    for member in ("name", "settings"):
        assert pool.FindFileContainingSymbol(f"forebay.v1.Sink.{member}").name == "forebay/v1/sink.proto"


@pytest.mark.parametrize("symbol", ["forebay.v1.Sink.other", "Sink", "", ".", "forebay.v1"])
def test_an_unknown_symbol_is_a_key_error(symbol: str) -> None:
    with pytest.raises(KeyError):
        SymbolPool().FindFileContainingSymbol(symbol)
