"""Console page with the schema versions of a sink, and a comparison of two of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final

from starlette.requests import Request

from forebay.broker.console.pages.page import UINT32_MAX, Page, PageSource, number, query, refused
from forebay.broker.core.errors import BrokerError, RowsNotDecodable
from forebay.broker.rpc.pages.rows import decoder
from forebay.broker.rpc.schema_service import SchemaServicer
from forebay.text.spark_schema import spark_fields
from forebay.v1 import schema_service_pb2 as pb

VERSIONS: Final = 1_000
"""Maximum number of versions on the page."""

FIELDS_MAX: Final = 2_000
"""Maximum number of fields per version on the page."""

ERROR_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class FieldPair:
    """One field in two versions."""

    name: str
    """Name; a nested field has its path, separated by dots."""

    left: str
    """Type in the left version; empty if that version does not have the field."""

    right: str
    """The same for the right version."""

    @property
    def change(self) -> str:
        """Return ``added``, ``removed``, ``changed``, or an empty string if the types are equal."""
        if self.left == self.right:
            return ""
        return "added" if not self.left else "removed" if not self.right else "changed"


async def schemas(source: PageSource, request: Request) -> Page:
    """Return the page with all schema versions of a sink, and the fields of two of them side by side."""
    name = source.named(request)
    service = SchemaServicer(source.broker)
    try:
        listed = await service.ListSchemas(pb.ListSchemasRequest(sink=name, page_size=VERSIONS), None)
        kept = [one.version for one in listed.schemas if one.HasField("registered_at")]
        newest = kept[-1] if kept else 0
        right = number(request, "right", newest, most=UINT32_MAX)
        before = max((one for one in kept if one < right), default=right)
        left = number(request, "left", before, most=UINT32_MAX)
        pairs: tuple[FieldPair, ...] = ()
        if right:
            one = await service.GetSchema(pb.GetSchemaRequest(sink=name, version=left), None)
            other = await service.GetSchema(pb.GetSchemaRequest(sink=name, version=right), None)
            pairs = tuple(paired(fields_of(one.schema), fields_of(other.schema)))
    except BrokerError as error:
        raise refused(error) from error
    data = {
        "schemas": listed.schemas,
        "left": left,
        "right": right,
        "fields": pairs,
    }
    return Page(
        "schemas.html",
        f"Schemas of {name}",
        data,
        f"forebay schema list {name}",
        f"/sinks/{name}/schemas",
        query(left=left, right=right),
        shown={**data, "name": name},
        further=tuple(f"forebay schema show {name} {version}" for version in sorted({left, right} - {0})),
    )


def fields_of(schema: pb.Schema) -> dict[str, str]:
    """Return the type of each field by name; a nested field is named by its path, separated by dots.

    The broker does not parse a schema when it stores it. An invalid one is returned as one field with an empty name,
    whose type is the error.
    """
    try:
        found = _read(schema)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, RowsNotDecodable) as error:
        return {"": f"cannot be read: {type(error).__name__}: {error}"[:ERROR_MAX]}
    return dict(islice(found, FIELDS_MAX))


def _read(schema: pb.Schema) -> Iterator[tuple[str, str]]:
    if schema.spark_schema:
        return iter(list(spark_fields(schema.spark_schema)))
    fields = decoder().read_schema(schema.arrow_schema)
    return iter([(field.name, str(field.type)) for field in fields])


def paired(left: Mapping[str, str], right: Mapping[str, str]) -> Iterator[FieldPair]:
    """Yield the fields of two versions, in the order of the right version; removed fields are last."""
    for name in [*right, *(name for name in left if name not in right)]:
        yield FieldPair(name, left.get(name, ""), right.get(name, ""))
