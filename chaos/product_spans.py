"""The only functions of the product that the reference of join uses: they read spans, and make interactions of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_args

from chaos.reference import Reading
from chaos.truth import heads
from ragweir.schemas.codec.json import encode
from ragweir.schemas.interaction import Assembly, AssemblyFlag, Interaction
from ragweir.streams.traces.interactions import assemble
from ragweir.streams.traces.wire import read


def encoded(interaction: Interaction, flags: Collection[str]) -> bytes:
    """Return an interaction as JSON, with further flags of its assembly."""
    assembly = interaction.assembly or Assembly()
    every = tuple(flag for flag in get_args(AssemblyFlag) if flag in {*flags, *assembly.flags})
    return encode(interaction.model_copy(update={"assembly": assembly.model_copy(update={"flags": every})}))


PRODUCT = Reading(heads, read, assemble, encoded)
