"""Fetches jars from Maven Central, or from the mirror of it that Maven's settings name, without Maven."""

from collections.abc import Iterable
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

from ragweir.errors import LocalServerError

_TIMEOUT_SECONDS: Final = 60
_EVERY_REPOSITORY: Final = ("*", "external:*")


def fetch(paths: Iterable[str], folder: Path) -> None:
    """Fetch jars into a new folder, by their paths in a Maven repository; the caller checks their sums.

    Raises:
        LocalServerError: jgo is not installed, or a jar could not be fetched.
    """
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - of the extra [local]
    except ModuleNotFoundError:
        raise LocalServerError(
            "Kafka's jars are fetched with jgo, and it is not installed (pip install 'ragweir[local]')."
        ) from None
    from requests import RequestException  # noqa: PLC0415 - jgo's HTTP client

    url = mirror(Path.home() / ".m2" / "settings.xml")
    # Without a mirror jgo takes its own address of Maven Central.
    repositories = {"central": url} if url else None
    downloads = folder.with_name("downloads")
    context = MavenContext(repo_cache=downloads, remote_repos=repositories, timeout=_TIMEOUT_SECONDS)
    folder.mkdir()
    for path in paths:
        *group, name, version, file = path.split("/")
        artifact = context.project(".".join(group), name).at_version(version).artifact()
        try:
            artifact.resolve().rename(folder / file)
        except (RequestException, RuntimeError, OSError) as error:
            raise LocalServerError(f"{file} could not be fetched: {error}") from error


def mirror(settings: Path) -> str | None:
    """Return the URL of the mirror of Maven Central in a settings.xml of Maven; None without one.

    Raises:
        LocalServerError: the file is not XML.
    """
    if not settings.exists():
        return None
    try:
        root = ET.parse(settings).getroot()  # noqa: S314 - the user's own file
    except ET.ParseError as error:
        raise LocalServerError(f"{settings} is not XML ({error}); correct it, or remove it.") from error
    for each in root.iterfind("{*}mirrors/{*}mirror"):
        names = [name.strip() for name in each.findtext("{*}mirrorOf", "").split(",")]
        if "!central" not in names and {"central", *_EVERY_REPOSITORY} & {*names}:
            return each.findtext("{*}url", "").strip() or None
    return None
