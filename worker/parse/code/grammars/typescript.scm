(abstract_class_declaration) @class
(interface_declaration) @interface
(enum_declaration) @enum
(type_alias_declaration) @type
(internal_module) @module
(module) @module
(function_signature) @function
(method_signature) @method
(abstract_method_signature) @method
(public_field_definition value: [(arrow_function) (function_expression)]) @method
(ambient_declaration) @outer
(expression_statement . (internal_module)) @outer

(extends_clause value: [(identifier) @use.base (member_expression property: (property_identifier) @use.base)
    (call_expression function: (identifier) @use.base)])
(implements_clause [(type_identifier) @use.base (generic_type name: (type_identifier) @use.base)
    (nested_type_identifier name: (type_identifier) @use.base)])
(extends_type_clause type: [(type_identifier) @use.base (generic_type name: (type_identifier) @use.base)])
(type_identifier) @use.type
