"""Summaries by `local/extractive`: sentences of the texts themselves, without a language model.

It selects the sentences nearest to the centroid of all, without repetitions (maximal marginal relevance), in the text's
order. Sentences are compared by their words, weighted by rarity: embedding each would cost as much as the folder.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from worker.tokens.tokenizers import cl100k

#: Name of the model.
MODEL = "local/extractive"
#: Maximum tokens of a summary. The local embedding model accepts little more.
SUMMARY_TOKENS = 200
#: Maximum sentences and words that are compared; of longer clusters, sentences at equal distances.
MAX_SENTENCES = 1000
MAX_WORDS = 2000
#: Weight of a sentence's nearness to the centroid; the rest is its difference from the sentences already chosen.
RELEVANCE = 0.7
#: Minimum words of a meaningful sentence.
MIN_WORDS = 3

_SENTENCE = re.compile(r"[^\n.!?]+(?:[.!?](?!\s)[^\n.!?]*)*[.!?]*")
#: A line break within a sentence: prose is often broken into lines.
_WRAPPED = re.compile(r"(?<=[\w,;:)])\n(?=[a-z(])")
_WORD = re.compile(r"[^\W\d_]{2,}")


def summary(texts: Sequence[str], max_tokens: int = SUMMARY_TOKENS) -> str:
    """Extract a summary of at most `max_tokens` tokens. Empty only if the texts contain no words at all."""
    sentences = _sentences(texts)
    if not sentences:
        return _cut(" ".join(" ".join(text.split()) for text in texts), max_tokens)
    chosen: list[int] = []
    room = max_tokens
    for index in _ranked(sentences):
        tokens = len(cl100k().starts(sentences[index])) + 1
        if tokens > room and chosen:
            continue
        chosen.append(index)
        room -= tokens
        if room <= 0:
            break
    return _cut(" ".join(sentences[index] for index in sorted(chosen)), max_tokens)


def _sentences(texts: Sequence[str]) -> list[str]:
    found = (" ".join(match[0].split()) for text in texts for match in _SENTENCE.finditer(_WRAPPED.sub(" ", text)))
    distinct = list(dict.fromkeys(sentence for sentence in found if len(_WORD.findall(sentence)) >= MIN_WORDS))
    step = max(1, -(-len(distinct) // MAX_SENTENCES))
    return distinct[::step]


def _ranked(sentences: Sequence[str]) -> list[int]:
    """Return the indices of sentences in order of selection; as many as a summary can hold."""
    vectors = _weighted(sentences)
    nearness = vectors @ _unit(vectors.sum(axis=0, keepdims=True))[0]
    repeated = np.zeros(len(sentences), dtype=np.float32)
    is_open = np.ones(len(sentences), dtype=bool)
    order: list[int] = []
    for _ in range(min(len(sentences), SUMMARY_TOKENS)):
        scores = np.where(is_open, RELEVANCE * nearness - (1 - RELEVANCE) * repeated, -np.inf)
        best = int(np.argmax(scores))
        order.append(best)
        is_open[best] = False
        repeated = np.maximum(repeated, vectors @ vectors[best])
    return order


def _weighted(sentences: Sequence[str]) -> NDArray[np.float32]:
    """Return one unit vector per sentence: the frequency of each word, times that word's rarity."""
    bags = [Counter(word.lower() for word in _WORD.findall(sentence)) for sentence in sentences]
    frequency = Counter(word for bag in bags for word in bag)
    words = [word for word, _ in sorted(frequency.items(), key=lambda item: (-item[1], item[0]))[:MAX_WORDS]]
    columns = {word: column for column, word in enumerate(words)}
    vectors = np.zeros((len(bags), len(columns)), dtype=np.float32)
    for row, bag in enumerate(bags):
        for word, count in bag.items():
            if word in columns:
                vectors[row, columns[word]] = count
    counts = np.array([frequency[word] for word in words], dtype=np.float32)
    rarity = np.log1p(np.float32(len(bags)) / counts)
    return _unit(np.multiply(vectors, rarity, dtype=np.float32))


def _unit(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: NDArray[np.float32] = np.divide(vectors, np.where(lengths, lengths, 1), dtype=np.float32)
    return unit


def _cut(text: str, max_tokens: int) -> str:
    starts = cl100k().starts(text)
    return text if len(starts) <= max_tokens else text[: starts[max_tokens]].rstrip()
