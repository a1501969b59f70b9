"""The tree of errors: its picture, and the exit status that each error gives a command and a worker."""

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ragweir import errors
from ragweir.errors import RagweirError
from ragweir.streams.commands.worker_exit import as_worker


def tree(kind: type[RagweirError], depth: int = 0) -> Iterator[tuple[int, str]]:
    """An error and those below it, with their depths."""
    yield depth, kind.__name__
    for below in kind.__subclasses__():
        yield from tree(below, depth + 1)


def test_the_picture_of_the_tree_is_true() -> None:
    """The docstring draws every error in its place, and no error stands in another module."""
    drawn = re.findall(r"^ {4}([│├└─ ]*)(\w+)", errors.__doc__ or "", re.MULTILINE)
    assert [(len(branch) // 4, name) for branch, name in drawn] == list(tree(RagweirError))
    assert all(hasattr(errors, name) for _, name in tree(RagweirError))


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, RagweirError)]


def raised(kind: type[RagweirError]) -> RagweirError:
    """One error of a kind."""
    return kind("not_json", "out of order") if kind is errors.Rejected else kind("out of order")


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_ends_with_one_sentence_and_the_status_of_the_error(
    kind: type[RagweirError], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise raised(kind)

    app = importlib.import_module("ragweir.streams.commands.app")
    monkeypatch.setattr(app, "app", fails)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == kind.exit_status
    assert capsys.readouterr().err == "ragweir: out of order\n"


@pytest.mark.parametrize("kind", KINDS)
def test_a_worker_ends_with_the_status_that_its_supervisor_knows(kind: type[RagweirError]) -> None:
    def fails() -> None:
        raise raised(kind)

    with pytest.raises(SystemExit) as ended:
        as_worker(fails)
    assert ended.value.code == kind.worker_status


@pytest.mark.slow
def test_the_errors_load_nothing() -> None:
    """Whoever catches an error of ours needs neither Kafka's client nor pydantic for that."""
    loads = "import sys, ragweir.errors; print({'confluent_kafka', 'pydantic', 'ragweir.streams'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", loads], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"
