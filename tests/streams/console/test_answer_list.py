"""The list of answers."""

import re
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scored_answers import RETURNS, ShownPages, pages_of

ROWS: list[dict[str, Any]] = [
    RETURNS
    | {
        "event_id": f"e{number}",
        "application": "hr" if number % 3 else "shop",
        "response": f"Call us. {'Lyon has vouchers. ' * (number % 4)}",
        "ended_at": f"2026-11-21T10:{number // 60:02}:{number % 60:02}Z",
    }
    for number in range(120)
]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pages_of(tmp_path_factory.mktemp("answers"), ROWS) as found:
        yield found


def ids(html: str) -> list[str]:
    return re.findall(r'<a data-row href="/answers/(e\d+)', html)


@pytest.mark.slow
def test_the_list_goes_on_page_by_page(pages: ShownPages) -> None:
    """Every answer is on one page, the newest first, and the way back leads over the same pages."""
    seen, path, back = [], "/answers", []
    while path:
        html = pages.page(path)
        seen.append(ids(html))
        following = re.search(r'rel="next" href="([^"]*)"', html)
        back.append(path)
        path = following[1].replace("&amp;", "&") if following else ""
    assert [each for page in seen for each in page] == [f"e{number}" for number in range(119, -1, -1)]
    assert [len(page) for page in seen] == [50, 50, 20]
    preceding = re.search(r'rel="prev" href="([^"]*)"', html)
    assert preceding is not None
    assert ids(pages.page(preceding[1].replace("&amp;", "&"))) == seen[1]


def test_filters_are_in_words_and_each_can_be_left_out(pages: ShownPages) -> None:
    """The query string is the whole state, and a link leads to it without one of its conditions."""
    html = pages.page("/answers?application=hr&min.unsupported_words=1&slo=grounded&judged=no&sort=unsupported_risk")
    for words in ("application hr", "1 ≤ unsupported_words", "bad for SLO grounded", "not judged"):
        assert f"<bdi>{words}</bdi>" in html
    assert 'href="/answers?min.unsupported_words=1.0&amp;slo=grounded&amp;judged=no&amp;sort=unsupported_risk"' in html
    assert "No answer fits these filters" in pages.page("/answers?application=nobody")


def test_the_form_of_filters_becomes_a_query(pages: ShownPages) -> None:
    """Empty fields are left out, and a metric with its limits becomes a range."""
    answer = pages.browser.get(
        "/answers?form=1&application=hr&tenant=&metric=unsupported_risk&low=0.5&high=&flag=a&flag=b&sort=time&order=desc"
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == (
        "/answers?application=hr&flag=a&flag=b&sort=time&order=desc&min.unsupported_risk=0.5"
    )
    assert pages.browser.get("/answers?form=1&application=").headers["location"] == "/answers"


def test_a_metric_sorts_and_bad_values_are_marked(pages: ShownPages) -> None:
    """The header of a column sorts by it, then the other way round; a rule's bad values stand out."""
    html = pages.page("/answers?sort=unsupported_risk")
    values = [float(each) for each in re.findall(r'<td class="figure(?: is-bad)?">([\d.]+)</td>', html)]
    assert 'aria-sort="descending"><a href="/answers?sort=unsupported_risk&amp;order=asc">' in html
    assert html.count('<td class="figure is-bad">') == sum(
        each > 0.5 for each in values[:: len(re.findall('<th class="figure"', html))]
    )
    ascending = pages.page("/answers?sort=unsupported_risk&order=asc")
    assert ids(ascending)[0] not in ids(html)


def test_the_list_is_downloaded_as_json_lines(pages: ShownPages) -> None:
    """All answers of the list, also beyond one page, with their scores."""
    answer = pages.browser.get("/answers.jsonl?application=hr&limit=7")
    lines = [orjson.loads(line) for line in answer.text.splitlines()]
    assert len(lines) == 80
    assert {line["application"] for line in lines} == {"hr"}
    assert lines[0]["scores"]["unsupported_risk"] is not None
    assert answer.headers["content-disposition"] == 'attachment; filename="answers.jsonl"'


MANY = "form=1&" + "&".join(f"application={number}" for number in range(300))


@pytest.mark.parametrize(
    "query",
    [
        MANY,
        "form=1&id=" + "x" * 9_000,
        "x=1",
        "sort=nothing",
        "min.unsupported_risk=a",
        "slo=other",
        "after=1",
        "limit=0",
    ],
)
def test_a_wrong_query_is_named(pages: ShownPages, query: str) -> None:
    html = pages.page(f"/answers?{query}", 400)
    assert "Bad Request" in html
    assert pages.browser.get(f"/answers.jsonl?{query}").status_code == 400


NAMES = st.sampled_from(
    ["application", "sort", "after", "from", "min.refusal", "flag", "form", "low", "metric", "labels.a"]
)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(NAMES | st.text(max_size=9), st.text(max_size=30)), max_size=4))
def test_any_query_has_an_answer(pages: ShownPages, pairs: list[tuple[str, str]]) -> None:
    """Nothing in a query string breaks the page, or becomes HTML."""
    query = "&".join(f"{quote(name, safe='.')}={quote(value)}" for name, value in pairs)
    answer = pages.browser.get(f"/answers?{query}")
    assert answer.status_code in (200, 303, 400), answer.text
    html = pages.browser.get(f"/answers?application=%3Cscript%3E&id={quote('<img src=x>')}").text
    assert "<script>" not in html
    assert "<img" not in html
