"""`ragweir doctor` reports a mistake once."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ragweir.streams.commands import app


@pytest.mark.slow
def test_a_mistake_is_reported_once_and_what_it_prevents_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing broker and a misspelt metric are two mistakes, of the checks that find them first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")
    Path("ragweir.toml").write_text(
        '[metrics]\noff = ["contxt_support"]\n[kafka]\nbootstrap_servers = "127.0.0.1:9"\n'
        '[judge]\nbase_url = "http://127.0.0.1:9"\nmodel = "m"\ndaily_budget_usd = "none"\n[telemetry]\nport = 0\n'
    )
    done = CliRunner().invoke(app, ["doctor"])
    lines = [line for line in done.output.splitlines() if line.startswith(("wrong", "skip"))]
    assert done.exit_code == 1
    assert [line.split(":")[0].split()[1] for line in lines if line.startswith("wrong")] == ["configuration", "broker"]
    assert "skip  judge: not checked because of configuration" in lines
    assert "skip  group: not checked because of broker" in lines
