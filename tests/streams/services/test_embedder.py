"""The local embedding model takes texts up to its limit."""

import numpy as np
import pytest

from ragweir.metrics.judged.suite import Embed
from ragweir.metrics.metric import Null
from ragweir.streams.services.judge.embedder import MOST_CHARACTERS, LocalEmbedder

pytest.importorskip("onnxruntime", reason="needs pip install 'ragweir[semantic]'")


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [False, True])
def test_a_text_may_have_as_many_characters_as_the_limit_says(tokens: bool) -> None:
    """Spaces are no tokens, so that the vectors are those of the short text."""
    embedder = LocalEmbedder()
    short, longest = (embedder.embed(Embed((text, "a"), tokens)) for text in ("bee", "bee".ljust(MOST_CHARACTERS)))
    assert not isinstance(short, Null)
    assert not isinstance(longest, Null)
    assert all(np.array_equal(*each) for each in zip(short, longest, strict=True))
    for texts in (("bee".ljust(MOST_CHARACTERS + 1), "a"), ("a", "bee".ljust(MOST_CHARACTERS + 1))):
        assert isinstance(embedder.embed(Embed(texts, tokens)), Null)
