"""The descriptions of a model's fields: the docstrings below them, read from its source when they are asked for.

Pydantic's `use_attribute_docstrings` reads the source when a class is made, which took a tenth of a service's start.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def field_docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings below the fields of a model, also of fields that it inherits.

    >>> from ragweir.schemas.run import Run
    >>> field_docstrings(Run)["topic"]
    'Topic of the interactions.'
    """
    found: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        if issubclass(owner, BaseModel) and owner is not BaseModel:
            own = dict(_documented(owner))
            found = {name: text for name, text in found.items() if name not in inspect.get_annotations(owner)} | own
    return {name: text for name, text in found.items() if name in model.model_fields}


def _documented(owner: type[BaseModel]) -> Iterator[tuple[str, str]]:
    try:
        source = inspect.getsource(owner)
    except (OSError, TypeError):  # a class that was made in an interpreter
        return
    match ast.parse(textwrap.dedent(source)).body:
        case [ast.ClassDef(body=body)]:
            for field, text in pairwise(body):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(said))):
                        yield name, inspect.cleandoc(said)
