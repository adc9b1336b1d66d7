"""Operations that are written once, and either block or are coroutines.

Code of the client that waits is written as coroutines. Their waits go through an ``Io`` (``transport.io``). With the
one of threads every wait blocks, so that a coroutine runs to its end without suspending, and ``blocked`` returns its
result. An ``operation`` blocks on an object marked ``Blocking``, and is a coroutine on an object marked ``Awaiting``.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

P = ParamSpec("P")
T = TypeVar("T")


class Blocking:
    """Mark of an object whose operations block the calling thread."""

    __slots__ = ()


class Awaiting:
    """Mark of an object whose operations are coroutines and asynchronous generators."""

    __slots__ = ()


def blocked(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine whose waits block."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a coroutine of the thread client suspended: its waits must block")


def iterated(steps: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Yield what an asynchronous generator whose waits block yields."""
    try:
        while True:
            try:
                step = blocked(steps.__anext__())
            except StopAsyncIteration:
                return
            yield step
    finally:
        blocked(steps.aclose())


class _Dual:
    """Method in its blocking and its asynchronous form, selected by the mark of the object or class."""

    def __init__(self, awaiting: Callable[..., Any], blocking: Callable[..., Any]) -> None:
        self._awaiting = awaiting
        self._blocking = blocking
        self.__doc__ = awaiting.__doc__

    def __get__(self, instance: object, owner: type) -> Any:
        """Return the method of an object or a class."""
        form = self._awaiting if issubclass(owner, Awaiting) else self._blocking
        return form if instance is None else MethodType(form, instance)


class Operation(Generic[P, T]):
    """Type of a method with one result."""

    @overload
    def __get__(self, instance: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the method of an object or a class."""


class Stream(Generic[P, T]):
    """Type of a method that yields results."""

    @overload
    def __get__(self, instance: Awaiting, owner: type) -> Callable[P, AsyncGenerator[T, None]]: ...
    @overload
    def __get__(self, instance: Blocking, owner: type) -> Callable[P, Generator[T, None, None]]: ...
    @overload
    def __get__(self, instance: None, owner: type) -> Callable[Concatenate[Any, P], Any]: ...
    def __get__(self, instance: Any, owner: type) -> Any:
        """Return the method of an object or a class."""


def operation(function: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Operation[P, T]:
    """Make a coroutine method block on objects that are marked ``Blocking``."""

    @wraps(function)
    def blocking(instance: object, *args: P.args, **kwargs: P.kwargs) -> T:
        return blocked(function(instance, *args, **kwargs))

    return cast(Operation[P, T], _Dual(function, blocking))


def stream(function: Callable[Concatenate[Any, P], AsyncGenerator[T, None]]) -> Stream[P, T]:
    """Make a method that is an asynchronous generator a plain one on objects that are marked ``Blocking``."""

    @wraps(function)
    def blocking(instance: object, *args: P.args, **kwargs: P.kwargs) -> Generator[T, None, None]:
        return iterated(function(instance, *args, **kwargs))

    return cast(Stream[P, T], _Dual(function, blocking))
