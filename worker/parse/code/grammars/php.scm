(class_declaration) @class
(interface_declaration) @interface
(trait_declaration) @trait
(enum_declaration) @enum
(namespace_definition body: (_)) @module
(function_definition) @function
(method_declaration) @method
(const_declaration (const_element) @constant)
(const_declaration . (const_element) .) @outer

(namespace_use_clause [(qualified_name (name) @use.import .) (name) @use.import])
(base_clause [(name) @use.base (qualified_name (name) @use.base .)])
(class_interface_clause [(name) @use.base (qualified_name (name) @use.base .)])
(use_declaration [(name) @use.base (qualified_name (name) @use.base .)])
(function_call_expression function: [(name) @use.call (qualified_name (name) @use.call .)])
(member_call_expression name: (name) @use.call)
(nullsafe_member_call_expression name: (name) @use.call)
(scoped_call_expression name: (name) @use.call)
(object_creation_expression [(name) @use.call (qualified_name (name) @use.call .)])
(named_type [(name) @use.type (qualified_name (name) @use.type .)])
