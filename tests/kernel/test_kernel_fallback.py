"""Events that the kernel cannot read are counted by the reference, and a kernel of another version is refused."""

import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from ragweir.metrics import native
from ragweir.metrics.catalogue import CATALOGUE_VERSION
from ragweir.metrics.counts import NAMES, Counts
from ragweir.metrics.view import View, example

kernel = pytest.importorskip("ragweir_kernel", reason="the kernel is not built")


def test_a_lone_surrogate_is_counted_by_the_reference() -> None:
    count = native.counting()
    for fields in ({"query": "\ud800"}, {"response": "a \udfff"}, {"contexts": [{"text": "\ud800"}]}):
        view = example(**fields)
        assert count(view) is view.reference
    assert count.panics == 0


def test_a_panic_is_counted_and_the_next_event_is_counted_by_the_kernel(capfd: pytest.CaptureFixture[str]) -> None:
    count = native.NativeCounting(kernel, native.tables() | {"panic": "Break!"})
    for panics in (1, 2):
        view = example(query="Break!", response="Yes, since 1889.")
        assert count(view) is view.reference
        assert count.panics == panics
        after = count(example(query="Go on.", response="Yes, since 1889."))
        assert not isinstance(after, Counts)
        assert after.response_numbers == 1
    assert "Break!" not in capfd.readouterr().err


def test_normalisation_may_call_the_kernel_again() -> None:
    """A call to Python may give way to another thread, which has a state of its own."""
    tables = native.tables()
    inner: list[int] = []

    def normalised(text: str) -> str:
        if not inner:
            inner.append(0)
            inner[0] = count(example(query="e\u0301 two three", response="")).query_tokens
        return str(tables["normalised"](text))

    count = native.NativeCounting(kernel, tables | {"normalised": normalised})
    assert count(example(query="one e\u0301", response="One of two.")).query_tokens == 2
    assert inner == [3]


def test_an_error_of_normalisation_is_raised() -> None:
    def normalised(_: str) -> str:
        raise MemoryError

    count = native.NativeCounting(kernel, native.tables() | {"normalised": normalised})
    with pytest.raises(MemoryError):
        count(example(query="e\u0301"))


@pytest.mark.slow
def test_threads_count_at_the_same_time() -> None:
    count = native.counting()
    wrong: list[int] = []

    def work(number: int) -> None:
        for size in range(1, 200):
            text = " ".join(f"e\u0301{number}x{index}" for index in range(size))
            found = count(example(query=text, response=text))
            if (found.query_distinct, found.common_distinct) != (size, size):
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"CATALOGUE_VERSION": "2"}, f"counts for version 2 of the catalogue, not for {CATALOGUE_VERSION}"),
        ({"NAMES": NAMES[1:]}, "has other counts than this ragweir"),
    ],
)
def test_a_kernel_of_another_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, object], reason: str
) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, SimpleNamespace(**vars(kernel) | changed))  # type: ignore[arg-type]
    with pytest.raises(native.KernelUnavailable, match=reason):
        native.counting()


def test_without_the_package_the_reason_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, native.MODULE, None)
    with pytest.raises(native.KernelUnavailable, match="not installed"):
        native.counting()


def test_a_view_counts_by_the_kernel() -> None:
    event = example(response="It opened in 1889.", contexts=[{"text": "In 1889."}]).interaction
    view = View(event, counting=native.counting())
    assert not isinstance(view.counts, Counts)
    assert view.counts.supported_numbers == 1


@pytest.mark.slow
def test_results_do_not_depend_on_the_key_of_the_hash() -> None:
    """Each process has another key."""
    code = (
        "from ragweir.metrics import native; from ragweir.metrics.view import View;"
        "from ragweir.schemas.codec.json import decode; from bench.interactions import interactions;"
        "count = native.counting(); print([tuple(count(View(decode(line)))) for line in interactions(20)])"
    )
    outputs = {subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)}
    assert len(outputs) == 1
    assert len(outputs.pop()) > 1_000
