"""The question answerer that publishes its interactions: `python -m examples.app.after`."""

import ragweir
from examples.app.facts import MODEL, QUESTIONS, search, simulated_model


def answer(question: str) -> str:
    """Return the answer to a question."""
    with ragweir.publish(query=question, application="facts", model=MODEL) as event:
        with event.retrieval("facts"):
            facts = search(question)
        event.contexts = [{"document_id": fact.subject, "text": fact.text} for fact in facts]
        with event.llm(MODEL):
            response = simulated_model(question, facts)
        event.response = response
        return response


if __name__ == "__main__":
    print(f"Answers of {MODEL}, which only repeats what was found:")
    for each in QUESTIONS:
        print(f"{each} {answer(each)}")
    ragweir.publish.flush(timeout=30)  # The end of a process waits 2 seconds; the first event may take longer.
