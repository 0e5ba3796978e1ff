"""Operation × dialect, row by row of the protocol's tables (see requests.py)."""

import pytest

pytest.register_assert_rewrite("tests.matrix.forms")
