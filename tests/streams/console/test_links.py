"""Links to the console from elsewhere: the list of answers reads each of them."""

import json
import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from ragweir.streams.console.store.answer_query import AnswerQuery

_DASHBOARD = json.loads(Path("deploy/grafana/ragweir.json").read_text(encoding="utf-8"))
LINKS = [
    link["url"]
    for panel in _DASHBOARD["panels"]
    for link in panel.get("fieldConfig", {}).get("defaults", {}).get("links", ())
]


@pytest.mark.parametrize("url", LINKS)
def test_a_link_of_grafana_is_a_list_of_answers(url: str) -> None:
    values = {"__from": "1764000000000", "__to": "1764003600000", "console:raw": "http://127.0.0.1:8600"}
    filled = re.sub(r"\$\{([^}]+)\}", lambda name: values.get(name[1], "some"), url)
    parts = urlsplit(filled)
    assert (parts.netloc, parts.path) == ("127.0.0.1:8600", "/answers")
    query = AnswerQuery.parse(parts.query, ignored=("form",))
    assert query.since is not None
    assert query.until is not None
    assert (query.until - query.since).total_seconds() == 3_600
    assert query.slo or query.where


def test_the_dashboard_links_to_the_console() -> None:
    assert len(LINKS) == 4
