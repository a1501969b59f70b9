"""The question answerer without ragweir: `python -m examples.app.before`."""

from examples.app.facts import MODEL, QUESTIONS, search, simulated_model


def answer(question: str) -> str:
    """Return the answer to a question."""
    facts = search(question)
    return simulated_model(question, facts)


if __name__ == "__main__":
    print(f"Answers of {MODEL}, which only repeats what was found:")
    for each in QUESTIONS:
        print(f"{each} {answer(each)}")
