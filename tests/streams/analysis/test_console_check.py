"""What `ragweir doctor` says of the console."""

from pathlib import Path
from typing import Any

import pytest

from ragweir.streams.analysis.checks import console
from ragweir.streams.analysis.checks.context import CheckContext, CheckFailed, CheckWarning
from ragweir.streams.services.console.instruments import INSTRUMENTS
from ragweir.streams.settings import Settings


def said(folder: Path, **own: Any) -> str:
    return console.console(CheckContext(Settings(console={"enabled": True, "folder": folder, **own})))


def test_a_folder_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    assert "off" in console.console(CheckContext(Settings()))
    assert "does not run" in said(tmp_path / "new" / "folder")
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckFailed, match=r"console\.folder"):
        said(tmp_path / "file" / "folder")


def test_how_far_it_has_read_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "ragweir_console_read_ratio" in {each.name for each in INSTRUMENTS}
    answers = iter(["ragweir_console_read_ratio 0.62\n", "x 1\nragweir_console_read_ratio 1.0\n"])
    monkeypatch.setattr(console, "answer", lambda *_: (True, next(answers)))
    with pytest.raises(CheckWarning, match="62%"):
        said(tmp_path)
    assert "has read all" in said(tmp_path)
