"""The kernel's work grows in proportion to the text: instructions, counted by valgrind, at two sizes of each attack."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ragweir_kernel", reason="the kernel is not built")

SIZE = 24_000
MAX_GROWTH = 2.3
SCRIPT = """
import pickle, sys, ragweir_kernel
tables, events = pickle.loads(open(sys.argv[1], "rb").read())
tables["normalised"] = lambda text: text
kernel = ragweir_kernel.Kernel(tables)
for event in events:
    kernel.counts(*event, 10**9, 10**9)
"""


@pytest.mark.heavy
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_twice_the_text_takes_twice_the_instructions(tmp_path: Path) -> None:
    import pickle

    from bench import hostile
    from ragweir.metrics import native
    from ragweir.metrics.view import View
    from ragweir.schemas.codec.json import decode

    tables = native.tables()
    normalised = tables.pop("normalised")
    shapes = {name: make for name, make in hostile.shapes() if "extractions" not in name}
    shapes = {
        name: make
        for name, make in shapes.items()
        if name in hostile.PRODUCTS or name.endswith((": response", ": everywhere"))
    }
    events = []
    for make in shapes.values():
        # The first of three is not counted: it grows the tables.
        for size in (SIZE * 2, SIZE, SIZE * 2):
            view = View(decode(hostile.event(make(size))))
            event = view.interaction
            contexts = [normalised(context.text or "") for context in event.contexts or ()]
            expected = [normalised(text) for text in event.expected or ()]
            fields = normalised(event.query or ""), normalised(event.response or ""), expected, contexts
            events.append((*fields, view.texts.passages))
    (tmp_path / "events").write_bytes(pickle.dumps((tables, events)))
    callgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp_path}/out", "--dump-after=*trampoline*"]
    command = [*callgrind, sys.executable, "-S", "-c", SCRIPT, str(tmp_path / "events")]
    folder = Path(sys.modules["ragweir_kernel"].__file__ or "").parents[1]
    subprocess.run(command, check=True, capture_output=True, env={"PYTHONPATH": str(folder)})
    pattern = re.compile(r"^summary: (\d+)", re.MULTILINE)
    costs = [int(pattern.search((tmp_path / f"out.{number}").read_text())[1]) for number in range(2, len(events) + 2)]  # type: ignore[index]
    growth = {name: costs[3 * at + 2] / costs[3 * at + 1] for at, name in enumerate(shapes)}
    print(*(f"{value:.2f} {name}" for name, value in sorted(growth.items(), key=lambda each: -each[1])), sep="\n")
    assert {name: value for name, value in growth.items() if value > MAX_GROWTH} == {}
