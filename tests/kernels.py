"""The kernel, where it is installed: tests that compare it with Python are skipped elsewhere."""

import pytest

from ragweir.metrics import native
from ragweir.metrics.view import Counting


def _kernel() -> tuple[Counting | None, str]:
    try:
        return native.counting(), ""
    except native.KernelUnavailable as unavailable:
        return None, str(unavailable)


KERNEL, WHY_NOT = _kernel()
needs_kernel = pytest.mark.skipif(KERNEL is None, reason=WHY_NOT)
