"""Sixty questions about public facts, with answers, contexts and times: the contents of all fixtures."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_CAPITALS = (
    "Austria Vienna|Belgium Brussels|Bulgaria Sofia|Chile Santiago|Croatia Zagreb|Cuba Havana|Cyprus Nicosia|"
    "Denmark Copenhagen|Egypt Cairo|Estonia Tallinn|Finland Helsinki|France Paris|Germany Berlin|Ghana Accra|"
    "Greece Athens|Hungary Budapest|Iceland Reykjavik|Ireland Dublin|Italy Rome|Japan Tokyo|Kenya Nairobi|Latvia Riga|"
    "Norway Oslo|Peru Lima|Poland Warsaw|Portugal Lisbon|Spain Madrid|Sweden Stockholm|Tunisia Tunis|Uruguay Montevideo"
)
_ELEMENTS = (
    "hydrogen H 1|helium He 2|lithium Li 3|carbon C 6|nitrogen N 7|oxygen O 8|fluorine F 9|neon Ne 10|sodium Na 11|"
    "magnesium Mg 12|aluminium Al 13|silicon Si 14|phosphorus P 15|sulfur S 16|chlorine Cl 17|argon Ar 18|"
    "potassium K 19|calcium Ca 20|titanium Ti 22|chromium Cr 24|manganese Mn 25|iron Fe 26|cobalt Co 27|nickel Ni 28|"
    "copper Cu 29|zinc Zn 30|silver Ag 47|tin Sn 50|gold Au 79|lead Pb 82"
)
_FIRST = datetime(2026, 10, 1, 9, 0, tzinfo=timezone.utc)  # noqa: UP017 - some SDKs still run on Python 3.10


@dataclass(frozen=True)
class Document:
    """One retrieved chunk."""

    chunk: str
    source: str
    text: str
    score: float


@dataclass(frozen=True)
class Question:
    """One answered question."""

    number: int
    text: str
    answer: str
    reference: str
    documents: tuple[Document, ...]
    started: datetime
    seconds: float

    @property
    def ended(self) -> datetime:
        return self.started + timedelta(seconds=self.seconds)

    @property
    def retrieved(self) -> datetime:
        """The time at which the documents were found."""
        return self.started + timedelta(seconds=self.seconds / 4)

    @property
    def texts(self) -> list[str]:
        return [document.text for document in self.documents]


def questions() -> list[Question]:
    """Return the questions; some answers have quotes, commas, line breaks or letters beyond ASCII."""
    made: list[Question] = []
    for entry in _CAPITALS.split("|"):
        country, city = entry.split()
        found = (
            ("atlas.txt", f"{city} is the capital of {country}."),
            (
                "atlas.txt",
                f'{country} calls its seat of government "{city}"; its people voted there in the last election.',
            ),
        )
        made.append(_question(len(made), f"What is the capital of {country}?", f"The capital is {city}.", city, found))
    for entry in _ELEMENTS.split("|"):
        name, symbol, number = entry.split()
        found = (
            ("elements.txt", f"The chemical element {name} has the symbol {symbol}.\nIts atomic number is {number}."),
            ("elements.txt", f"An atom of {name} has {number} protons, [roughly] half of its mass – or less."),
        )
        answer = f"{name.capitalize()} has the atomic number {number}, and the symbol {symbol}."
        made.append(_question(len(made), f"What is the atomic number of {name}?", answer, number, found))
    return made


def _question(number: int, text: str, answer: str, reference: str, found: tuple[tuple[str, str], ...]) -> Question:
    documents = tuple(
        Document(f"chunk-{number}-{rank}", source, content, round(0.9 - 0.1 * rank - number / 1000, 3))
        for rank, (source, content) in enumerate(found)
    )
    started = _FIRST + timedelta(minutes=number)
    return Question(number, text, answer, reference, documents, started, 0.8 + (number % 7) / 10)
