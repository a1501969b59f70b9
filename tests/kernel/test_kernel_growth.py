"""The kernel's work grows in proportion to the text: instructions, counted by valgrind, at two sizes of each attack."""

import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench import hostile
from ragweir.metrics import native
from ragweir.metrics.text.text import _normalised
from ragweir.schemas.codec.json import decode

kernel = pytest.importorskip("ragweir_kernel", reason="the kernel is not built")

SIZE = 6_000
TIMES = 4
MAX_GROWTH = 2.3**2
SCRIPT = """
import pickle, sys, ragweir_kernel
tables, events = pickle.loads(open(sys.argv[1], "rb").read())
tables["normalised"] = lambda text: text
kernel = ragweir_kernel.Kernel(tables)
for event in events:
    kernel.counts(*event, 10**9, 10**9)
"""
SHAPES = {
    name: make
    for name, make in hostile.shapes()
    if name in {*hostile.PRODUCTS, *hostile.LISTS}
    or name.endswith((": response", ": everywhere alike", ": 64 contexts"))
}


def arguments(fields: hostile.Fields) -> tuple[object, ...]:
    """The arguments of the kernel for an event, its texts in NFC, so that no Python is in its instructions."""
    event = decode(hostile.event(fields))
    contexts = [_normalised(context.text or "") for context in (event.contexts or ())[:64]]
    expected = [_normalised(text) for text in event.expected or ()]
    return _normalised(event.query or ""), _normalised(event.response or ""), expected, contexts, range(len(contexts))


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_twice_the_text_takes_twice_the_instructions(tmp_path: Path) -> None:
    """Four times the text at most 5.3 times: single steps depend on where a text is cut."""
    tables = native.tables()
    del tables["normalised"]
    # The first of three is not counted: it fills the vocabulary.
    sizes = (SIZE * TIMES, SIZE, SIZE * TIMES)
    events = [arguments(make(size)) for make in SHAPES.values() for size in sizes]
    (tmp_path / "events").write_bytes(pickle.dumps((tables, events)))
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path}/out", "--dump-after=*trampoline*"]
    command = [*callgrind, sys.executable, "-S", "-c", SCRIPT, str(tmp_path / "events")]
    folder = Path(kernel.__file__).parents[1]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": str(folder)})
    # The first dump is that of the constructor.
    dumps = [(tmp_path / f"out.{number}").read_text(encoding="utf-8") for number in range(2, len(events) + 2)]
    costs = [int(re.findall(r"^summary: (\d+)", dump, re.MULTILINE)[0]) for dump in dumps]
    growth = {name: costs[3 * at + 2] / costs[3 * at + 1] for at, name in enumerate(SHAPES)}
    print(*(f"{value:.2f} {name}" for name, value in sorted(growth.items(), key=lambda each: each[1])), sep="\n")
    assert len(growth) > 100
    assert {name: value for name, value in growth.items() if value > MAX_GROWTH} == {}
