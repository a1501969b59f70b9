"""An attribute computed when first asked for: functools.cached_property without the lock that Python 3.11 takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 (used as a decorator, like property)
    """Computes an attribute once per instance. For instances that one thread uses.

    >>> class Circle:
    ...     @lazy
    ...     def area(self) -> float:
    ...         print("computed")
    ...         return 3.0
    >>> circle = Circle()
    >>> circle.area + circle.area
    computed
    6.0
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, _: type, name: str) -> None:
        """Learn the attribute's name."""
        self._name = name

    @overload
    def __get__(self, instance: None, _: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, _: type) -> T: ...

    def __get__(self, instance: object | None, _: type) -> lazy[T] | T:
        """Compute and keep; Python finds what is kept by itself from then on."""
        if instance is None:
            return self
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
