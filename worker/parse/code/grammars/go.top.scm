(const_declaration (const_spec) @constant)
(var_declaration (var_spec) @variable)
