(lexical_declaration (variable_declarator name: (identifier) value: (class)) @class)
([(lexical_declaration (variable_declarator name: (identifier) value: (_)? @_value) @variable)
    (variable_declaration (variable_declarator name: (identifier) value: (_)? @_value) @variable)
    (export_statement (lexical_declaration (variable_declarator name: (identifier)) @variable))]
    (#not-match? @_value "^require\\("))
