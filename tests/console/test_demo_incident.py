"""The demo's incident in Chromium: from the link of the alert that fired to the evidence about its worst answer."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chromium_console import PATIENCE_S, RunningConsole, chromium, follow, log_in, looking

from ragweir.streams.runtime.processes.supervisor import own_command

_LOGIN = re.compile(r"looked at and labelled: (http://127\.0\.0\.1:\d+)/login#(\w+)$", re.MULTILINE)
_LINK = re.compile(r"its causes: (http\S+)")
_STAYS = "Everything keeps running until Ctrl-C"


@contextmanager
def staying_demo(folder: Path) -> Iterator[str]:
    """`make demo DEMO=--stay` for the length of a block; the value is what it printed until nothing more happens."""
    (folder / "tmp").mkdir()
    line = own_command("demo", "--stay", "--seconds", "0")
    env = {**os.environ, "TMPDIR": str(folder / "tmp"), "COLUMNS": "400", "TERM": "dumb", "FORCE_COLOR": ""}
    with subprocess.Popen(
        line, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            printed = []
            assert process.stdout is not None
            for said in process.stdout:
                printed.append(said)
                if said.startswith(_STAYS):
                    break
            else:
                pytest.fail("it ended:\n" + "".join(printed))
            yield "".join(printed)
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=2 * PATIENCE_S)


@pytest.mark.usefixtures("tools")
def test_three_clicks_lead_from_the_alert_of_the_demo_to_the_evidence(tmp_path: Path) -> None:
    """The alert's link to its causes, their bad answers, and the worst of these, sentence by sentence."""
    with staying_demo(tmp_path) as printed, chromium() as browser:
        login, links = _LOGIN.search(printed), _LINK.findall(printed)
        assert login, printed
        assert links, printed
        place = RunningConsole(login[1], login[2], tmp_path)
        with looking(browser, place) as (page, heard):
            log_in(page, place)
            follow(page, heard, links[0])
            page.click("text=See them, worst first")
            page.click("[data-row] >> nth=0")
            page.get_by_text("lack support").or_(page.get_by_text("lacks support")).first.wait_for()
            text = page.inner_text("main")
            assert "v2" in text, "the version that is worse"
            assert heard.reports == []
