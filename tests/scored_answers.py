"""The pages of the console over events that were scored as `ragweir score` scores them, for tests."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from browsers import TOKEN, logged_in
from starlette.testclient import TestClient
from typer.testing import CliRunner

from ragweir.schemas.label import Label
from ragweir.streams.analysis.labels.store import written
from ragweir.streams.commands import app
from ragweir.streams.console.application import application
from ragweir.streams.console.content import ConsoleContent
from ragweir.streams.console.from_files import content_of_files
from ragweir.streams.console.pages.routes import page_routes
from ragweir.streams.settings import Settings, Slo
from ragweir.streams.settings.console import ConsoleSettings

GROUNDED = Slo(name="grounded", metric="unsupported_risk", at_most=0.5, objective=0.95)
RETURNS: dict[str, Any] = {
    "event_id": "returns",
    "application": "support-bot",
    "pipeline_version": "v2",
    "query": "How long may I return shoes?",
    "response": "Call us. You may return shoes for 90 days and get a voucher [2]. Vouchers wait in Lyon until 2030.",
    "contexts": [{"text": "Call us at noon."}, {"document_id": "d7", "text": "Return shoes within 30 days."}],
    "ended_at": "2026-11-21T10:03:04.230Z",
}


class ShownPages(NamedTuple):
    """The pages, and the browser of a person who is logged in."""

    content: ConsoleContent
    browser: TestClient

    def page(self, path: str, status: int = 200) -> str:
        """The HTML of a page."""
        answer = self.browser.get(path)
        assert answer.status_code == status, answer.text
        return answer.text


def score(folder: Path, rows: Sequence[Mapping[str, Any]], *words: str) -> Path:
    """Score events in a folder; returns the file of evaluations."""
    events, out = folder / "events.jsonl", folder / "evaluations.jsonl"
    events.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    done = CliRunner().invoke(app, ["score", str(events), "--out", str(out), *words], catch_exceptions=False)
    assert not done.exit_code, done.output
    return out


@contextmanager
def pages_of(
    folder: Path, rows: Sequence[Mapping[str, Any]] = (RETURNS,), labels: Sequence[Label] = (), **console: Any
) -> Iterator[ShownPages]:
    """Show the pages of events for the length of a `with` block."""
    evaluations = score(folder, rows)
    with shown(folder, [evaluations], labels, **console) as pages:
        yield pages


@contextmanager
def shown(
    place: Path, evaluations: Sequence[Path], labels: Sequence[Label] | None = (), **console: Any
) -> Iterator[ShownPages]:
    """Show the pages of files of evaluations for the length of a `with` block; without labels, with those there."""
    settings = Settings(slo=(GROUNDED,), console=ConsoleSettings(**console))
    if labels is not None:
        (place / "labels.jsonl").write_bytes(written(labels))
    with content_of_files(settings, evaluations, place / "events.jsonl", place / "labels.jsonl") as content:
        yield ShownPages(content, logged_in(application(page_routes(content), settings.console, TOKEN)))
