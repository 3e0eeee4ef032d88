(class_specifier name: (_) body: (_)) @class
(namespace_definition name: (_)) @module
(concept_definition) @type
(alias_declaration) @type
(field_declaration_list (field_declaration declarator: (function_declarator)) @method)
(field_declaration_list (declaration declarator: (function_declarator)) @method)
(template_declaration) @outer

(base_class_clause [(type_identifier) @use.base (qualified_identifier name: (type_identifier) @use.base)
    (template_type name: (type_identifier) @use.base)
    (qualified_identifier name: (template_type name: (type_identifier) @use.base))])
(call_expression function: [(qualified_identifier name: (identifier) @use.call) (template_function name: (identifier) @use.call)
    (qualified_identifier name: (template_function name: (identifier) @use.call))])
(new_expression type: [(type_identifier) @use.call (qualified_identifier name: (type_identifier) @use.call)
    (template_type name: (type_identifier) @use.call)])
(using_declaration [(identifier) @use.import (qualified_identifier name: (identifier) @use.import)])
