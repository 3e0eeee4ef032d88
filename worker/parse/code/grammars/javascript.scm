(class_declaration) @class
(function_declaration) @function
(generator_function_declaration) @function
(method_definition) @method
(variable_declarator name: (identifier) value: [(arrow_function) (function_expression) (generator_function)]) @function
(assignment_expression left: [(identifier) (member_expression)]
    right: [(arrow_function) (function_expression) (generator_function) (class)]) @function
(pair key: (property_identifier) value: [(arrow_function) (function_expression)]) @method
(export_statement declaration: (_)) @outer
(export_statement value: (_)) @outer
(lexical_declaration . (variable_declarator) .) @outer
(variable_declaration . (variable_declarator) .) @outer
(expression_statement . (assignment_expression)) @outer

(import_statement source: (string (string_fragment) @use.import))
((variable_declarator name: [(identifier) @use.import (object_pattern (shorthand_property_identifier_pattern) @use.import)]
    value: (call_expression function: (identifier) @_require)) (#eq? @_require "require"))
((call_expression function: (identifier) @_require arguments: (arguments . (string (string_fragment) @use.import)))
    (#eq? @_require "require"))
((variable_declarator name: (object_pattern (pair_pattern key: (property_identifier) @use.import))
    value: (call_expression function: (identifier) @_require)) (#eq? @_require "require"))
(call_expression function: (import) arguments: (arguments . (string (string_fragment) @use.import)))
(import_specifier name: (identifier) @use.import)
(export_statement source: (string (string_fragment) @use.import))
(export_statement (export_clause (export_specifier name: (identifier) @use.import)) source: (string))
(import_clause (identifier) @use.import)
(call_expression function: [(identifier) @use.call (member_expression property: [(property_identifier)
    (private_property_identifier)] @use.call)])
(new_expression constructor: [(identifier) @use.call (member_expression property: (property_identifier) @use.call)])
(decorator [(identifier) @use.call (member_expression property: (property_identifier) @use.call)])
