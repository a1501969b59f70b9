"""The choice of what counts the texts of events, from the settings: the kernel or Python."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from typing_extensions import override

from ragweir.errors import ConfigurationError
from ragweir.metrics import native
from ragweir.metrics.view import Counting, reference
from ragweir.streams.settings.kernel import KernelSettings

PYTHON = "python"
"""The value of the label `kernel` where texts are counted in Python."""


@dataclass(frozen=True, slots=True)
class KernelChoice:
    """The way in which texts are counted, with the reason if it is not the kernel."""

    counting: Counting
    version: str = ""
    """Version of the kernel; empty if texts are counted in Python."""
    reason: str = ""
    """The reason why texts are counted in Python; empty if the kernel counts them."""

    @property
    def label(self) -> str:
        """The value of the label `kernel`."""
        return self.version or PYTHON

    @override
    def __str__(self) -> str:
        """Return the value for logs: the label, and the reason if it is not a version.

        >>> str(kernel_choice(KernelSettings(use="never")))
        'python (kernel.use is "never")'
        """
        return self.version or f"{PYTHON} ({self.reason})"

    @property
    def sentence(self) -> str:
        """A sentence for `ragweir doctor`."""
        if self.version:
            return f"texts are counted by the kernel {self.version}"
        return f"texts are counted in Python, with the same results at a lower speed: {self.reason}"


def kernel_choice(settings: KernelSettings) -> KernelChoice:
    """Choose what counts texts.

    >>> kernel_choice(KernelSettings(use="never")).reason
    'kernel.use is "never"'

    Raises:
        ConfigurationError: if the kernel has to be used and cannot be.
    """
    if settings.use == "never":
        return KernelChoice(reference, reason='kernel.use is "never"')
    try:
        kernel = _kernel()
        return KernelChoice(kernel, kernel.version)
    except native.KernelUnavailable as unavailable:
        if settings.use == "always":
            raise ConfigurationError(
                f'kernel.use is "always", and {unavailable}; `pip install "ragweir[fast]"` installs the kernel of this '
                'version, `make kernel` builds that of a checkout, and kernel.use = "auto" works without it'
            ) from None
        return KernelChoice(reference, reason=str(unavailable))


@cache
def _kernel() -> native.NativeCounting:
    """Return the kernel's way to count; making one takes longer than many events.

    Raises:
        KernelUnavailable: if there is none.
    """
    return native.counting()
