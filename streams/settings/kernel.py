"""Settings of the kernel that counts texts."""

from __future__ import annotations

from typing import Literal

from ragweir.streams.settings.group import SettingsGroup


class KernelSettings(SettingsGroup):
    """The kernel, which counts the texts of events in native code: the same results in less time."""

    use: Literal["auto", "never", "always"] = "auto"
    """Use of the kernel that the extra `ragweir[fast]` installs. `auto` uses it if it is installed and of this version
    of the catalogue, and else counts texts in Python, with the same results; `always` does not start without it;
    `never` counts in Python."""
