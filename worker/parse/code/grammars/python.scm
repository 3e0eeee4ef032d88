; A node with a kind as its capture is a definition; @outer encloses exactly one (decorators, export, template).
(class_definition) @class
(function_definition) @function
(type_alias_statement) @type
(module (expression_statement (assignment left: (identifier)) @variable))
(decorated_definition) @outer

(import_statement name: [(dotted_name) @use.import (aliased_import name: (dotted_name) @use.import)])
(import_from_statement module_name: (dotted_name) @use.import)
(import_from_statement name: [(dotted_name (identifier) @use.import .) (aliased_import name: (dotted_name (identifier) @use.import .))])
(class_definition superclasses: (argument_list [(identifier) @use.base (attribute attribute: (identifier) @use.base)
    (subscript value: (identifier) @use.base) (subscript value: (attribute attribute: (identifier) @use.base))]))
(call function: [(identifier) @use.call (attribute attribute: (identifier) @use.call)])
(decorator [(identifier) @use.call (attribute attribute: (identifier) @use.call)])
(type [(identifier) @use.type (attribute attribute: (identifier) @use.type) (generic_type (identifier) @use.type)
    (binary_operator (identifier) @use.type)])
