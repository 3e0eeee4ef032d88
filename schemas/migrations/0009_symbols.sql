-- Case-insensitive look-up of definitions, and look-up of uses by the definition that contains them.

CREATE INDEX symbol_name_lower ON symbol (index_id, lower(name), file_id, number);
CREATE INDEX symbol_reference_scope ON symbol_reference (file_id, scope);
