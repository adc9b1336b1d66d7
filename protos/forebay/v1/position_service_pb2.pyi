from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PositionKey(_message.Message):
    __slots__ = ("namespace", "consumer", "sink", "partition")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    SINK_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    consumer: str
    sink: str
    partition: int
    def __init__(self, namespace: _Optional[str] = ..., consumer: _Optional[str] = ..., sink: _Optional[str] = ..., partition: _Optional[int] = ...) -> None: ...

class StoredPosition(_message.Message):
    __slots__ = ("key", "document", "version")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    key: PositionKey
    document: bytes
    version: str
    def __init__(self, key: _Optional[_Union[PositionKey, _Mapping]] = ..., document: _Optional[bytes] = ..., version: _Optional[str] = ...) -> None: ...

class ReadPositionRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: PositionKey
    def __init__(self, key: _Optional[_Union[PositionKey, _Mapping]] = ...) -> None: ...

class ReadPositionResponse(_message.Message):
    __slots__ = ("position",)
    POSITION_FIELD_NUMBER: _ClassVar[int]
    position: StoredPosition
    def __init__(self, position: _Optional[_Union[StoredPosition, _Mapping]] = ...) -> None: ...

class WritePositionRequest(_message.Message):
    __slots__ = ("key", "document", "expected_version")
    KEY_FIELD_NUMBER: _ClassVar[int]
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    key: PositionKey
    document: bytes
    expected_version: str
    def __init__(self, key: _Optional[_Union[PositionKey, _Mapping]] = ..., document: _Optional[bytes] = ..., expected_version: _Optional[str] = ...) -> None: ...

class WritePositionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: str
    def __init__(self, version: _Optional[str] = ...) -> None: ...

class DeletePositionRequest(_message.Message):
    __slots__ = ("key",)
    KEY_FIELD_NUMBER: _ClassVar[int]
    key: PositionKey
    def __init__(self, key: _Optional[_Union[PositionKey, _Mapping]] = ...) -> None: ...

class DeletePositionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListPositionsRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListPositionsResponse(_message.Message):
    __slots__ = ("positions", "next_page_token")
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[StoredPosition]
    next_page_token: str
    def __init__(self, positions: _Optional[_Iterable[_Union[StoredPosition, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...
