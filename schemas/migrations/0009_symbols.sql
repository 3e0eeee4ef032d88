-- Definitions are looked up by whoever does not know how a name is spelled, and uses by the definition they are in.

CREATE INDEX symbol_name_lower ON symbol (index_id, lower(name), file_id, number);
CREATE INDEX symbol_reference_scope ON symbol_reference (file_id, scope);
