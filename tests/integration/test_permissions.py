"""Who may change what ragweir trusts, and who may read what it writes. Root is held to no mode, so these count."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import ragweir

from ragweir.errors import ConfigurationError
from ragweir.streams.analysis.backfill.output_formats import JsonLines, write
from ragweir.streams.runtime.kafka.properties import client_properties
from ragweir.streams.services.judge.redaction import Redactor
from ragweir.streams.services.shared.from_settings import catalogue, read_map
from ragweir.streams.settings import JudgeSettings, import_function, load
from ragweir.streams.settings.permissions import create, open_to_all, owned_by_another, replacing, user_name

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
    """The one sentence by which a path is rejected."""
    return f"chmod o-w {path}$"


def test_a_settings_file_that_everybody_may_change_is_rejected(tmp_path: Path) -> None:
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
def test_files_that_the_settings_name_are_rejected_likewise(open_: str, tmp_path: Path) -> None:
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


def test_a_module_that_everybody_may_change_is_rejected_before_it_runs(tmp_path: Path) -> None:
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


NOBODY = 65_534
"""The id of a user that owns nothing, so that root gives files to it."""
AS_ROOT = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root gives files to another user")


def of_another(path: Path) -> str:
    """The beginning and end of the sentence by which a path of another user is rejected."""
    return f"the user {user_name(NOBODY)} owns {path}.*: chown {user_name(os.geteuid())} {path}, "


@AS_ROOT
@pytest.mark.parametrize("which", ["file", "folder", "link", "its target"])
def test_what_another_user_owns_is_found(which: str, tmp_path: Path) -> None:
    """In a sticky folder as well, and whatever the modes are."""
    target = made(tmp_path / "target" / "file", 0o600, 0o700)
    file = made(tmp_path / "folder" / "file", 0o600, 0o1777)
    link = file.with_name("link")
    link.symlink_to(target)
    for path in (file, link):
        assert owned_by_another(path) is None
    given = {"file": file, "folder": file.parent, "link": link, "its target": target}[which]
    os.chown(given, NOBODY, NOBODY, follow_symlinks=False)
    assert owned_by_another(file if which == "file" else link) == (given, user_name(NOBODY))


@AS_ROOT
def test_a_settings_file_of_another_user_is_rejected_in_a_sticky_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its owner and by the owner of its folder; root's own file there is read."""
    folder = tmp_path / "sticky"
    file = made(folder / "ragweir.toml", 0o644, 0o1777, text="[topics]\npartitions = 3")
    monkeypatch.chdir(folder)
    assert load().topics.partitions == 3
    for given in (file, folder):
        os.chown(given, NOBODY, NOBODY)
        for named in (None, file):
            with pytest.raises(ConfigurationError, match=of_another(given)) as caught:
                load(named)
            assert "\n" not in str(caught.value)
        os.chown(given, 0, 0)
    assert load().topics.partitions == 3


@AS_ROOT
@pytest.mark.parametrize("of", ["map", "key", "pack", "hook", "oauth", "metrics"])
def test_what_the_settings_name_is_rejected_if_another_user_owns_it(of: str, tmp_path: Path) -> None:
    places = {"map": "map.toml", "key": "key", "pack": "packs/p.toml"}
    named = made(tmp_path / places.get(of, f"{of}_of_another.py"), text="raise SystemExit('it ran')")
    os.chown(named, NOBODY, NOBODY)
    function = f"{named.stem}:function"
    uses: dict[str, Callable[[], object]] = {
        "map": lambda: read_map(named),
        "key": lambda: load(None, {"judge": {"api_key_file": named}}),
        "pack": lambda: load(None, {"metrics": {"packs": named.parent}}),
        "hook": lambda: Redactor(JudgeSettings(redaction="on", redact_hook=function)),
        "oauth": lambda: client_properties(load(None, {"kafka": {"oauth": function}})),
        "metrics": lambda: catalogue(load(None, {"metrics": {"modules": [named.stem]}})),
    }
    with pytest.raises(ConfigurationError, match=of_another(named)):
        uses[of]()


@AS_ROOT
def test_a_module_is_rejected_in_a_folder_of_another_user(tmp_path: Path) -> None:
    """Even root's own: the folder's owner may replace it, or add a package of the same name."""
    made(tmp_path / "module_of_root.py", text="def hook(text): return text")
    os.chown(tmp_path, NOBODY, NOBODY)
    with pytest.raises(ConfigurationError, match=of_another(tmp_path)):
        import_function("module_of_root:hook")
    os.chown(tmp_path, 0, 0)
    assert import_function("module_of_root:hook")("as it is") == "as it is"


def test_no_module_is_imported_from_a_folder_that_all_may_add_modules_to(tmp_path: Path) -> None:
    """A module of one's own in /tmp may import others, which anybody can put there."""
    made(tmp_path / "module_in_sticky.py", 0o644, 0o1777, text="import added_by_another\ndef hook(text): return text")
    made(tmp_path / "added_by_another.py", 0o644, 0o1777, text="raise SystemExit('it ran')")
    with pytest.raises(ConfigurationError, match=f"may add modules to {tmp_path}, .* move yours"):
        import_function("module_in_sticky:hook")
    assert str(tmp_path) not in sys.path
    assert import_function("json:dumps")(1) == "1", "what is installed is imported as ever"


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
        "from pathlib import Path; from ragweir.streams.settings.permissions import replacing\n"
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
