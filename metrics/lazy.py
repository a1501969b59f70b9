"""`lazy`: functools.cached_property without the lock of Python 3.11, which takes longer than most attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    lazy = cached_property
else:

    class lazy:  # noqa: N801 (used as a decorator, like property)
        """Attribute that is computed once per instance, on first access. Not thread-safe.

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

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, _: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, _: type) -> Any:
            value = instance.__dict__[self._name] = self._compute(instance)
            return value
