"""SECURITY.md: what it links to is there."""

import re

from commands import ROOT


def test_every_link_leads_somewhere() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", (ROOT / "SECURITY.md").read_text(encoding="utf-8"))
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
