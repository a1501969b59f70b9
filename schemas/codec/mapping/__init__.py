"""Maps of foreign schemas: paths, rules, the texts that they parse, and the map of an event."""

from ragweir.schemas.codec.mapping.field_map import FieldMap

__all__ = ["FieldMap"]
