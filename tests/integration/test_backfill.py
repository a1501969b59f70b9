"""README's chapter on backfill, followed word for word on a Kafka with the demo's samples."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ROOT, environment, ragweir
from conftest import SharedBroker

from ragweir.streams.playground.local.prometheus import programs


def chapter() -> str:
    """The commands between its marks."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- backfill -->\n```\n(.*?)```\n<!-- /backfill -->", text, re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.long
def test_the_chapter_can_be_followed_word_for_word(kafka: SharedBroker, prefix: str, tmp_path: Path) -> None:
    """Only the broker's address is another, as the reader is told; each command leaves what it promises."""
    shared = ["--bootstrap-servers", kafka.bootstrap, "--prefix", prefix]
    assert ragweir("demo", "--write-samples", tmp_path / "samples", "--events", "60").returncode == 0
    assert ragweir(*shared, "topics", "create", RAGWEIR_TOPICS__PARTITIONS="2").returncode == 0
    assert ragweir(*shared, "publish", tmp_path / "samples").returncode == 0

    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "ragweir").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m ragweir.streams.cli "$@"\n')
    (tools / "ragweir").chmod(0o755)
    (tools / "promtool").symlink_to(programs().promtool)
    told = environment(RAGWEIR_TOPICS__PREFIX=prefix)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", chapter().replace("127.0.0.1:9092", kafka.bootstrap)],
        cwd=tmp_path,
        env={**told, "PATH": f"{tools}:{told['PATH']}"},
        capture_output=True,
        check=False,
        timeout=280,
    )
    output = done.stdout.decode() + done.stderr.decode()
    assert done.returncode == 0, output
    for file in ("windows.jsonl", "windows.txt", "report.html", "timeline.html", "rules/slo.yml"):
        assert (tmp_path / file).stat().st_size, file
    assert "today" in output
    assert "fewer" in output
    assert list((tmp_path / "data").iterdir())
