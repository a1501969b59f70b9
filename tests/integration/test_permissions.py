"""Who may change what ragweir trusts, and who may read what it writes. Root is held to no mode, so only modes count."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from commands import ragweir

from ragweir.errors import ConfigurationError
from ragweir.streams.backfill.output_formats import JsonLines, write
from ragweir.streams.from_settings import read_map
from ragweir.streams.permissions import create, open_to_all, replacing
from ragweir.streams.settings import import_function, load

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def made(file: Path, mode: int = 0o644, folder: int = 0o755, text: str = "") -> Path:
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    file.parent.chmod(folder)
    return file


OPEN = (
    ("private", 0o600, 0o700, None),
    ("as most are", 0o644, 0o755, None),
    ("a group's", 0o664, 0o775, None),
    ("a file of all", 0o666, 0o755, "file"),
    ("a folder of all", 0o600, 0o777, "folder"),
    ("a sticky folder, such as /tmp", 0o600, 0o1777, None),
    ("a file of all in a sticky folder", 0o602, 0o1777, "file"),
)


@pytest.mark.parametrize(("mode", "folder", "which"), [case[1:] for case in OPEN], ids=[case[0] for case in OPEN])
def test_what_everybody_may_change_is_found(mode: int, folder: int, which: str | None, tmp_path: Path) -> None:
    file = made(tmp_path / "folder" / "file", mode, folder)
    assert open_to_all(file) == {None: None, "file": file, "folder": file.parent}[which]


def test_links_are_followed_and_their_own_folder_counts(tmp_path: Path) -> None:
    """As Kubernetes mounts a ConfigMap or Secret: links to files that nobody may write, in a folder that is sticky."""
    target = made(tmp_path / "..data" / "file")
    (tmp_path / "mount").mkdir(mode=0o755)
    link = tmp_path / "mount" / "file"
    link.symlink_to(target)
    link.parent.chmod(0o1777)
    assert open_to_all(link) is None
    link.parent.chmod(0o777)
    assert open_to_all(link) == link.parent
    link.parent.chmod(0o755)
    target.parent.chmod(0o777)
    assert open_to_all(link) == target.parent
    target.parent.chmod(0o755)
    target.chmod(0o646)
    assert open_to_all(link) == link


def refused(path: Path) -> str:
    """The one sentence by which a path is refused."""
    return f"chmod o-w {path}$"


def test_a_settings_file_that_everybody_may_change_is_refused(tmp_path: Path) -> None:
    file = made(tmp_path / "ragweir.toml", text="[topics]\npartitions = 3")
    assert load().topics.partitions == load(file).topics.partitions == 3
    file.chmod(0o666)
    for named in (None, file):
        with pytest.raises(ConfigurationError, match=refused(file)) as caught:
            load(named)
        assert "\n" not in str(caught.value)
    file.chmod(0o644)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigurationError, match=refused(tmp_path)):
        load()


@pytest.mark.parametrize("open_", ["file", "folder"])
def test_files_that_the_settings_name_are_refused_likewise(open_: str, tmp_path: Path) -> None:
    modes = (0o666, 0o755) if open_ == "file" else (0o644, 0o777)
    map_ = made(tmp_path / "map" / "map.toml", *modes, text='query = "q"\nresponse = "r"\nevent_id = "i"')
    key = made(tmp_path / "secret" / "key", *modes, text="k")
    pack = made(tmp_path / "packs" / "pack.toml", *modes)
    with pytest.raises(ConfigurationError, match=refused(map_ if open_ == "file" else map_.parent)):
        read_map(map_)
    for settings, named in (
        ({"judge": {"api_key_file": key}}, key),
        ({"metrics": {"packs": pack.parent}}, pack),
    ):
        with pytest.raises(ConfigurationError, match=refused(named if open_ == "file" else named.parent)):
            load(None, settings)
        named.chmod(0o644)
        named.parent.chmod(0o755)
        load(None, settings)


def test_a_module_that_everybody_may_change_is_refused_before_it_runs(tmp_path: Path) -> None:
    """Also by its compiled form, its package, or a package around it, which would run first."""
    proof = tmp_path / "it ran"
    text = f"open({str(proof)!r}, 'w').close()\ndef hook(text): return text"
    module = made(tmp_path / "open_module.py", 0o666, text=text)
    made(tmp_path / "open_package" / "__init__.py", 0o666, text=text)
    made(tmp_path / "open_package" / "inner.py", text=text)
    made(tmp_path / "open_folder" / "__init__.py", 0o644, 0o777, text=text)
    compiled = made(tmp_path / "compiled_module.py", text=text)
    cache = tmp_path / "__pycache__"
    cache.mkdir(exist_ok=True)
    cache.chmod(0o777)
    for place, named in (
        ("open_module:hook", module),
        ("open_package.inner:hook", tmp_path / "open_package" / "__init__.py"),
        ("open_folder:hook", tmp_path / "open_folder"),
        ("compiled_module:hook", cache),
    ):
        with pytest.raises(ConfigurationError, match=refused(named)):
            import_function(place)
        assert not proof.exists(), place
    cache.chmod(0o755)
    assert import_function("compiled_module:hook")("as it is") == "as it is"
    assert proof.exists()
    assert compiled.exists()


def mode_of(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_a_new_file_is_its_owners_alone_and_an_old_one_keeps_its_mode(tmp_path: Path) -> None:
    """Whatever the umask lets through."""
    before = os.umask(0)
    try:
        for name, how in (("plain", create), ("whole", replacing)):
            file = tmp_path / name
            for text, mode in ((b"longer than the second", 0o600), (b"second", 0o640)):
                with how(file) as output:
                    output.write(text)
                assert file.read_bytes() == text
                assert mode_of(file) == mode, name
                file.chmod(0o640)
    finally:
        os.umask(before)
    assert {file.name for file in tmp_path.iterdir()} == {"plain", "whole"}


def test_a_pipe_is_written_to() -> None:
    """`--out >(program)` and /dev/stdout stay what they are."""
    program = (
        "from pathlib import Path; from ragweir.streams.permissions import replacing\n"
        "with replacing(Path('/dev/stdout')) as output: output.write(b'text')"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"text"


def evaluations(count: int, level: float) -> str:
    """Lines that `compare` and `slo rehearse` read."""
    return "".join(
        f'{{"event_id": "{number}", "event_time": "2026-11-21T10:{number % 60:02}:00Z", "stage": "scored", '
        f'"scores": {{"unsupported_risk": {level + number / 1_000}}}, "catalogue_version": "1"}}\n'
        for number in range(count)
    )


def test_what_quotes_events_is_its_owners_alone(tmp_path: Path) -> None:
    """Every file that a command writes, but for what was there before with another mode."""
    a, b = (made(tmp_path / name / "in", text=evaluations(60, level)) for name, level in (("a", 0.2), ("b", 0.7)))
    slo = "grounded: unsupported_risk <= 0.3 for 99%"
    made(tmp_path / "kept", 0o644)
    for words, files in (
        (("demo", "--write-samples", "samples", "--events", "20"), ["samples"]),
        (("score", "samples", "--out", "out", "--windows", "windows"), ["out", "windows"]),
        (("compare", a, b, "--html", "page.html", "--json", "compared.json"), ["page.html", "compared.json"]),
        (
            ("slo", "rehearse", a, "--slo", slo, "--picture", "past.html", "--json", "past.json", "--write", "rules"),
            ["past.html", "past.json", "rules/slo.yml", "rules/slo_tests.yml", "rules/slo_history.yml"],
        ),
        (("score", "samples", "--out", "kept"), []),
    ):
        done = ragweir(*words, folder=tmp_path)
        assert done.returncode == 0, done.stderr.decode()
        assert {name: mode_of(tmp_path / name) for name in files} == dict.fromkeys(files, 0o600)
    assert mode_of(tmp_path / "kept") == 0o644
    write([], {tmp_path / "replayed": JsonLines()})  # As `ragweir replay --windows` and `--openmetrics` do.
    assert mode_of(tmp_path / "replayed") == 0o600
