"""Examples of extending ragweir; no part of the package."""
