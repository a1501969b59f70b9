"""The reader of pages believes nothing: a page that is not true fails with the place, and true ones do not."""

import importlib
from pathlib import Path

import pytest
from commands import ROOT
from pages import Command, File, NotRun, PageError, Python, Stop, Visit, steps
from reader import Unlike, reading

PAGE = """# A page

Write `greeting.txt`:

```text
hello
```

Add to `greeting.txt`:

```text
reader
```

1. In a list, too:

   ```console
   $ cd . && export NAME=Ada
   $ cat greeting.txt; echo "$NAME" \\
   >     | tr a-z A-Z
   hello
   ...
   ADA
   ```

```python
answer = 42
```

```python
assert answer == 42
```

```toml
not = "titled, so an illustration"
```

<!-- not run: it needs a cluster of twelve -->
```console
$ rm -rf /
```

<!-- stop: sleep 60 -->
"""
LOOK = """
Write `events.jsonl`:

```jsonl
{"event_id": "e1", "query": "Whom?", "ended_at": 1764000000, "response": "Call us.", "contexts": [{"text": "Call us."}]}
```

```console
$ ragweir score events.jsonl --out evaluations.jsonl
...
$ ragweir console evaluations.jsonl --events events.jsonl
...
```

Open [the answer](http://127.0.0.1:8600/answers/e1?sort=time).

<!-- shows: Every answer | WORDS -->
"""


def follow(page: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    folder = tmp_path / "reader"
    folder.mkdir()
    with reading("page.md", folder, None, 30_000) as reader:
        for step in steps(tmp_path / "page.md"):
            reader.follow(step)


def console(*lines: str) -> str:
    return "\n".join(["```console", *lines, "```", ""])


def test_a_page_is_read_as_its_reader_does(tmp_path: Path) -> None:
    """Files, commands with their output, Python, and what is not run, each with its line."""
    (tmp_path / "page.md").write_text(PAGE)
    assert list(steps(tmp_path / "page.md")) == [
        File(5, "greeting.txt", "hello\n"),
        File(11, "greeting.txt", "reader\n", added=True),
        Command(18, "cd . && export NAME=Ada"),
        Command(19, 'cat greeting.txt; echo "$NAME" \\\n    | tr a-z A-Z', ("hello", "...", "ADA")),
        Python(26, "answer = 42\n"),
        Python(30, "assert answer == 42\n"),
        NotRun(39, "it needs a cluster of twelve"),
        Stop(43, "sleep 60"),
    ]


def test_a_true_page_is_followed_to_its_end(tmp_path: Path) -> None:
    """Variables, the folder, files, Python's names and services last from one step to the next."""
    served = console("$ sleep 60 &", "$ mkdir -p a && cd a", "$ pwd", ".../reader/a")
    follow(PAGE.replace("# A page\n", f"# A page\n\n{served}\n"), tmp_path)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (console("$ echo a", "b"), ["page.md:2", "$ echo a", "expected: b", "got:      a"]),
        (console("$ echo a; echo b", "a"), ["expected: the end of the output", "got:      b"]),
        (console("$ true", "a"), ["expected: a", "got:      the end of the output"]),
        (
            console("$ . .venv/bin/activate", "$ make demo"),
            ["exit status 1", "make is not run here; say why in the page"],
        ),
        (console("$ true", "$ (exit 3)"), ["page.md:3", "exit status 3 instead of 0"]),
        (console("$ ragweir score absent.jsonl"), ["exit status", "absent.jsonl"]),
        (
            console("$ (exit 4) &", "$ sleep 0.5", "$ true"),
            ["page.md:", "the service of line 2", "ended with status 4"],
        ),
        (console("$ sleep 0.2 &", "$ sleep 0.5"), ["page.md:2", "ended by itself with status 0"]),
        (console("$ trap 'exit 5' TERM; while true; do sleep 0.1; done &"), ["page.md:2", "when stopped: status 5"]),
        ("```python\nx = 1\nassert x == 2\n```\n", ["page.md:1", "line 3", "assert x == 2", "AssertionError"]),
        ("```python\n>>> 1 + 1\n3\n```\n", ["Expected:", "3", "Got:", "2"]),
        ("In `deploy/secrets.sh`:\n\n```sh\nnot in it\n```\n", ["page.md:3", "deploy/secrets.sh of the repository"]),
        ("<!-- stop: ragweir up -->\n", ["page.md:1", "no `ragweir up` runs"]),
    ],
    ids=lambda value: value.split("\n")[1] if isinstance(value, str) else "",
)
def test_a_page_that_is_not_true_fails_with_its_place(page: str, told: list[str], tmp_path: Path) -> None:
    with pytest.raises(Unlike) as failure:
        follow(page, tmp_path)
    for part in told:
        assert part in str(failure.value)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        (console("output", "$ true"), "page.md:2: a console fence begins with output"),
        (f"<!-- not run -->\n{console('$ true')}", "page.md:2: a fence is not run, and the comment before it"),
        (f"<!-- not run: slow -->\n{console('$ true')}", "gives no reason"),
    ],
    ids=["output", "bare", "short"],
)
def test_a_fence_that_cannot_be_read_is_an_error(page: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page)
    with pytest.raises(PageError) as failure:
        list(steps(tmp_path / "page.md"))
    assert told in str(failure.value)


def test_a_reader_is_repeated_until_a_service_has_done_its_work(tmp_path: Path) -> None:
    """A command that reads is repeated while services run; one that writes is run once."""
    later = "import time; time.sleep(1); open('result', 'w').write('done'); time.sleep(60)"
    follow(console(f'$ python -c "{later}" &', "$ cat result", "done"), tmp_path)
    once = console("$ sleep 60 &", "$ echo x >> count; cat absent")
    (tmp_path / "second").mkdir()
    with pytest.raises(Unlike):
        follow(once, tmp_path / "second")
    assert (tmp_path / "second" / "reader" / "count").read_text() == "x\n"


def test_an_installed_package_stays_with_its_page(tmp_path: Path) -> None:
    """A page may install what it makes; neither an index nor the environment of the tests has a part in it."""
    project = """
Write `own/pyproject.toml`:

```toml
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "own-of-a-page"
version = "1"
```

Write `own/own_of_a_page.py`:

```python
ANSWER = 42
```
"""
    used = 'python -c "from own_of_a_page import ANSWER; print(ANSWER)"'
    follow(project + console("$ pip install --quiet ./own", f"$ {used}", "42"), tmp_path)
    with pytest.raises(ImportError):
        importlib.import_module("own_of_a_page")


def test_a_part_of_a_file_of_the_repository_leaves_the_file_whole(tmp_path: Path) -> None:
    follow("In `deploy/secrets.sh`:\n\n```sh\nset -eu\numask 077\n```\n", tmp_path)
    copy = tmp_path / "reader" / "deploy" / "secrets.sh"
    assert copy.read_text() == (ROOT / "deploy" / "secrets.sh").read_text()


def test_addresses_of_the_page_are_those_of_the_run(tmp_path: Path) -> None:
    """A page says localhost:9092 and the default ports; the run has its own, and shows the page's again."""
    written, shown = "localhost:9092 127.0.0.1:9092 127.0.0.1:9664", "127.0.0.1:9092 localhost:9092 127.0.0.1:9664"
    (tmp_path / "page.md").write_text(console(f"$ echo {written} > it; cat it", shown))
    (tmp_path / "reader").mkdir()
    with reading("page.md", tmp_path / "reader", "127.0.0.1:20123", 30_000) as reader:
        for step in steps(tmp_path / "page.md"):
            reader.follow(step)
    assert (tmp_path / "reader" / "it").read_text() == "127.0.0.1:20123 127.0.0.1:20123 127.0.0.1:30200\n"


def test_words_of_a_page_of_the_console_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page that has them is passed, and one that lacks one of them is named with its text."""
    monkeypatch.setattr("reader._REPEAT_S", 15)
    page = LOOK.replace("Every answer", "every sentence has support")
    follow(page.replace("WORDS", "Call us."), tmp_path)
    (tmp_path / "again").mkdir()
    with pytest.raises(Unlike, match=r"the page lacks 'in Lyon'[\s\S]*every sentence has support"):
        follow(page.replace("WORDS", "in Lyon"), tmp_path / "again")


def test_words_need_a_link_to_the_console(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("Open [it](http://127.0.0.1:8600/answers?a=b).\n\n<!-- shows: 1 answer | x -->\n")
    assert [*steps(tmp_path / "page.md")] == [Visit(3, "/answers?a=b", ("1 answer", "x"))]
    (tmp_path / "page.md").write_text("Open it.\n\n<!-- shows: 1 answer -->\n")
    with pytest.raises(PageError, match="no link to the console"):
        [*steps(tmp_path / "page.md")]
