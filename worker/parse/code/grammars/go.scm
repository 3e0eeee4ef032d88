(function_declaration) @function
(method_declaration) @method
(method_elem) @method
(type_spec type: (struct_type)) @struct
(type_spec type: (interface_type)) @interface
(type_spec type: (_simple_type)) @type
(type_alias) @type
(type_declaration . (type_spec) .) @outer
(type_declaration . (type_alias) .) @outer
(const_declaration . (const_spec) .) @outer
(var_declaration . (var_spec) .) @outer

(import_spec path: (interpreted_string_literal (interpreted_string_literal_content) @use.import))
(field_declaration !name type: [(type_identifier) @use.base (qualified_type name: (type_identifier) @use.base)])
(interface_type (type_elem [(type_identifier) @use.base (qualified_type name: (type_identifier) @use.base)]))
(call_expression function: [(identifier) @use.call (selector_expression field: (field_identifier) @use.call)
    (parenthesized_expression (identifier) @use.call)])
(type_instantiation_expression type: (type_identifier) @use.call)
(composite_literal type: [(type_identifier) @use.call (qualified_type name: (type_identifier) @use.call)])
(type_identifier) @use.type
