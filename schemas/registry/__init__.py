"""Records of a Schema Registry: a frame that names the schema, and the data that the schema describes."""
