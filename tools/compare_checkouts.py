"""Compare the outputs of two checkouts for the same events, byte for byte.

    .venv/bin/python -m tools.compare_checkouts REVISION

Each checkout scores the same files on the command line, one of them with a simulated judge, and runs evaluate,
aggregate and export on a local Kafka. Compared are evaluations, windows in their canonical form, dead letters with
their headers, the reports of `compare` and `slo rehearse`, and the samples that Prometheus scrapes. The exit status is
1 if anything differs.

One side is a revision of the history, the other the working tree. The revision gets the working tree's catalogue
version, so that a raised version hides no other difference. Labelled data is used if it is present.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from ragweir.streams.playground.local.kafka import local_kafka
from ragweir.streams.runtime.kafka.reader import offset_range, read
from ragweir.streams.runtime.processes.child_python import python_command
from ragweir.streams.runtime.records import Record
from ragweir.streams.settings import load

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
PARTITIONS = 1
"""Partitions of each topic. With several, the order of evaluations depends on how the broker fills fetches."""
STAMP_MS = 1_764_000_000_000
"""The timestamp of every record that is produced: 2025-11-24T16:00Z."""
BEGIN_MAP = """
event_id = ["message", "model_name"]
query = "message"
response = "response"
model = "model_name"
"contexts[].text" = "knowledge"
ended_at = { constant = 2024-12-01T00:00:00Z }
"""
SETTINGS = {
    "RAGWEIR_TELEMETRY__PORT": "0",
    "RAGWEIR_TOPICS__PARTITIONS": str(PARTITIONS),
    "RAGWEIR_TOPICS__REPLICATION_FACTOR": "1",
    "RAGWEIR_WINDOWS__IDLE_S": "1",
    # All evaluations are in one batch, since the number of a window's part depends on the batch.
    "RAGWEIR_WINDOWS__COMMIT_MS": "5000",
    "RAGWEIR_JUDGE__BASE_URL": "http://127.0.0.1:9/v1",  # Requests are written, but not judged.
    "RAGWEIR_ROUTING__KEY": "compared",
}
ARRIVAL = ("late", "closed", "revision")
"""Fields of a window that depend on when records arrived; the canonical form leaves them out."""
_VERSION = re.compile(r"^CATALOGUE_VERSION = .*$", re.MULTILINE)


class Checkout:
    """One side: its code, and the folder of its outputs."""

    def __init__(self, code: Path, outputs: Path, work: Path) -> None:
        self.code, self.outputs, self.work = code, outputs, work
        outputs.mkdir(parents=True)
        commands = "commands" if (code / "streams" / "commands").exists() else "cli"
        self.module = f"{'ragweir.' if (code / 'ragweir').exists() else ''}streams.{commands}"

    def command(self, *arguments: str | Path) -> list[str]:
        return python_command("-m", self.module, *map(str, arguments))

    def environment(self, **more: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("RAGWEIR_")}
        return {**kept, "PYTHONPATH": str(self.code), "COLUMNS": "200", "NO_COLOR": "1", **SETTINGS, **more}

    def run(self, *arguments: str | Path, **settings: str) -> bytes:
        done = subprocess.run(
            self.command(*arguments), cwd=self.work, env=self.environment(**settings), capture_output=True, check=False
        )
        if b"Traceback" in done.stderr or done.returncode > 1:
            raise SystemExit(f"{self.module} {arguments}: exit {done.returncode}\n{done.stderr.decode()[-2000:]}")
        return done.stdout

    @contextmanager
    def service(self, name: str, *arguments: str, bootstrap: str = "") -> Iterator[Path]:
        """Run a service for the length of the block; yield its log file."""
        log = self.outputs.parent / f"{self.outputs.name}-{name}.log"
        variables = self.environment(RAGWEIR_KAFKA__BOOTSTRAP_SERVERS=bootstrap or "127.0.0.1:9092")
        command = self.command(name, *arguments)
        with (
            log.open("wb") as output,
            subprocess.Popen(command, cwd=self.work, env=variables, stdout=output, stderr=output) as process,
        ):
            try:
                yield log
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def hostile(count: int) -> Iterator[bytes]:
    """Yield valid events, invalid events, and lines that are no event."""
    rng = random.Random(7)
    words = "the policy premium rose by 4.2 % in 2025 on Dec 9, 2025 for Rule C-1 although it may not apply".split()
    for number in range(count):
        text = " ".join(rng.choices(words, k=rng.randint(0, 60)))
        event: dict[str, Any] = {
            "event_id": f"e{rng.randrange(count)}",
            "query": " ".join(rng.choices(words, k=6)),
            "response": text,
            "ended_at": f"2025-11-24T{rng.randrange(24):02}:{rng.randrange(60):02}:00Z",
            "application": rng.choice(["a", "b", None]),
            "contexts": [{"text": " ".join(rng.choices(words, k=30)), "score": rng.random()} for _ in range(3)],
            "expected": rng.choice([None, "4.2 %", ["Rule C-1", "2025"]]),
            "spans": [{"kind": "llm", "started_at": STAMP_MS, "ended_at": STAMP_MS + rng.randrange(9_000)}],
        }
        odd = rng.randrange(12)
        if odd == 0:
            event[rng.choice(["query", "response", "event_id"])] = None
        elif odd == 1:
            yield rng.choice([b"", b"no json", b'{"event_id": NaN}', b"[1]", b"\xff"])
            continue
        yield json.dumps(event | {"unknown": number}).encode()


def inputs(folder: Path) -> dict[str, tuple[Path, Path | None]]:
    """Return the files to score, each with its map."""
    (folder / "hostile.jsonl").write_bytes(b"\n".join(hostile(2_000)) + b"\n")
    (folder / "begin.toml").write_text(BEGIN_MAP)
    found: dict[str, tuple[Path, Path | None]] = {
        "hostile": (folder / "hostile.jsonl", None),
        "mtrag": (DATA / "mtrag.jsonl", ROOT / "deploy" / "maps" / "mtrag.toml"),
        "begin": (DATA / "begin.jsonl", folder / "begin.toml"),
    }
    return {name: files for name, files in found.items() if files[0].exists()}


def canonical(line: bytes) -> bytes:
    """Return a window without the fields that depend on arrival."""
    window = {name: value for name, value in json.loads(line).items() if name not in ARRIVAL}
    return json.dumps(window, sort_keys=True).encode()


def by_files(side: Checkout, files: dict[str, tuple[Path, Path | None]]) -> None:
    """Score every file, and write the reports."""
    for name, (file, mapping) in files.items():
        made, windows = side.outputs / f"{name}.evaluations", side.outputs / f"{name}.windows"
        mapped: list[str | Path] = ["--map", mapping] if mapping else []
        side.run("score", file, *mapped, "--out", made, "--windows", windows, "--explain")
        windows.write_bytes(b"\n".join(map(canonical, windows.read_bytes().splitlines())))
    made = side.outputs / "hostile.evaluations"
    other = side.outputs.parent / "short.evaluations"  # The same path on both sides: reports name their sources.
    side.run("score", files["hostile"][0], "--out", other, RAGWEIR_LIMITS__MAX_TOKENS="20")
    baseline = side.outputs.parent / "whole.evaluations"
    baseline.write_bytes(made.read_bytes())
    reports = side.outputs
    side.run("compare", baseline, other, "--json", reports / "compare.json", "--html", reports / "compare.html")
    slo = ("--slo", "supported: context_support >= 0.5 for 95%", "--slo", "short: response_words <= 40 for 90%")
    rehearsed = ("--json", reports / "rehearse.json", "--picture", reports / "rehearse.html")
    side.run("slo", "rehearse", baseline, *slo, *rehearsed, "--write", reports / "rules")


def records(bootstrap: str, topic: str) -> list[Record]:
    """Return the committed records of a topic."""
    settings = load(None, {"kafka": {"bootstrap_servers": bootstrap}})
    return list(read(settings, offset_range(settings, topic)))


def until_steady(poll: Callable[[], Any], steady_s: float = 6.0, timeout_s: float = 120.0) -> Any:
    """Poll until a true answer has not changed for some seconds, or until the timeout; return the last answer."""
    began = changed = time.monotonic()
    last = poll()
    while time.monotonic() - changed < steady_s or (not last and time.monotonic() - began < timeout_s):
        time.sleep(0.5)
        if (now := poll()) != last:
            changed, last = time.monotonic(), now
    return last


def address_in(log: Path) -> str:
    """Wait for the address in a service's log."""
    for _ in range(600):
        if (found := re.search(rb"http://127\.0\.0\.1:\d+", log.read_bytes())) is not None:
            return found[0].decode()
        time.sleep(0.1)
    raise SystemExit(f"the service logged no address; see {log}")


def by_judge(side: Checkout, file: Path) -> None:
    """Score a file with a simulated judge, whose answers depend only on the questions."""
    with side.service("simulate-judge", "--port", "0", "--latency-ms", "0") as log:
        settings = {
            "RAGWEIR_JUDGE__BASE_URL": f"{address_in(log)}/v1",
            "RAGWEIR_JUDGE__DAILY_BUDGET_USD": "none",
            "RAGWEIR_ROUTING__FLOORS": '{"rubric": 0.2, "context_recall": 0.2, "ragas": 0.1}',
        }
        judged = side.outputs / "judged.evaluations"
        side.run("score", file, "--judge", "--out", judged, **settings)
        judged.write_bytes(b"\n".join(sorted(judged.read_bytes().splitlines())))


def by_kafka(side: Checkout, file: Path) -> None:
    """Run the services on the events of a file, and store their records and samples."""
    with local_kafka() as kafka:
        at = kafka.bootstrap
        side.run("topics", "create", RAGWEIR_KAFKA__BOOTSTRAP_SERVERS=at)
        producer = Producer({"bootstrap.servers": at, "linger.ms": 5})
        for value in file.read_bytes().splitlines():
            producer.produce("rag.interactions", value, partition=0, timestamp=STAMP_MS)
        producer.flush(60)
        with side.service("evaluate", "--slot", "0", bootstrap=at):
            until_steady(lambda: len(records(at, "rag.evaluations")))
        with (
            side.service("aggregate", "--slot", "0", bootstrap=at),
            side.service("export", "--slot", "0", bootstrap=at) as log,
        ):
            if not until_steady(lambda: len(records(at, "rag.windows"))):
                raise SystemExit(f"nothing was written; see {log}")
            address = address_in(log)

            def scraped() -> list[str]:
                with urllib.request.urlopen(f"{address}/metrics", timeout=30) as answer:
                    lines = answer.read().decode().splitlines()
                return [line for line in lines if line.startswith("ragweir_window_") and 'window="' in line]

            (side.outputs / "exposition").write_text("\n".join(until_steady(scraped)))
        for name in ("evaluations", "dead-letter", "judge.requests"):
            found = ((each.partition, each.key, each.value, each.headers) for each in records(at, f"rag.{name}"))
            lines = sorted(repr(each).encode() for each in found)
            (side.outputs / f"kafka.{name}").write_bytes(b"\n".join(lines))
        newest = {(each.partition, each.key or b""): each.value for each in records(at, "rag.windows")}
        parts = [(*key, canonical(value)) for key, value in newest.items() if value and b"progress" not in key[1]]
        (side.outputs / "kafka.windows").write_bytes(b"\n".join(repr(part).encode() for part in sorted(parts)))


def extracted(revision: str, folder: Path) -> Path:
    """Extract the packages of a revision."""
    packages = ["schemas", "metrics", "streams"]
    listed = subprocess.run(["git", "ls-tree", "--name-only", revision], cwd=ROOT, capture_output=True, check=True)
    packages += ["ragweir"] if b"ragweir\n" in listed.stdout else []
    packed = subprocess.run(["git", "archive", revision, *packages], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(folder, filter="tar")
    catalogue = folder / "metrics" / "catalogue.py"
    version = _VERSION.search((ROOT / "metrics" / "catalogue.py").read_text())
    if version is None:
        raise SystemExit("the catalogue has no version")
    catalogue.write_text(_VERSION.sub(version[0], catalogue.read_text()))
    return folder


def main() -> int:
    """Compare, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", help="the revision that the working tree is compared with")
    parser.add_argument("--no-kafka", action="store_true", help="compare only the outputs of commands on files")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        files = inputs(folder)
        before = Checkout(extracted(chosen.revision, folder / "code"), folder / "1" / "out", folder)
        after = Checkout(ROOT, folder / "2" / "out", folder)
        for side in (before, after):
            by_files(side, files)
            by_judge(side, files["hostile"][0])
            if not chosen.no_kafka:
                by_kafka(side, files["hostile"][0])
        differing = sum(map(differ(before, after), names(before, after)))
    return int(differing > 0)


def names(*sides: Checkout) -> list[str]:
    """Return the names of the outputs of all sides."""
    return sorted({str(f.relative_to(side.outputs)) for side in sides for f in side.outputs.rglob("*") if f.is_file()})


def differ(before: Checkout, after: Checkout) -> Callable[[str], bool]:
    """Return a function that compares an output of both sides, prints the result, and returns True if they differ."""

    def content(side: Checkout, name: str) -> bytes:
        file, folder = side.outputs / name, str(side.outputs.parent).encode()
        return file.read_bytes().replace(folder, b"") if file.exists() else b""

    def compare(name: str) -> bool:
        both = content(before, name), content(after, name)
        print(f"{'same     ' if both[0] == both[1] else 'DIFFERENT'}  {len(both[0]):>10,} bytes  {name}")
        if both[0] != both[1]:
            lines = zip_longest(*(each.splitlines() for each in both), fillvalue=b"")
            old, new = next((pair for pair in lines if pair[0] != pair[1]), both)
            at = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
            print(f"    before: {old[max(0, at - 80) : at + 120]!r}\n    after:  {new[max(0, at - 80) : at + 120]!r}")
        return both[0] != both[1]

    return compare


if __name__ == "__main__":
    sys.exit(main())
