"""An application before and after it publishes its interactions; no part of the package."""
