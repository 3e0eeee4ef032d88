(function_item) @function
(function_signature_item) @function
(struct_item) @struct
(union_item) @struct
(enum_item) @enum
(trait_item) @trait
(impl_item) @impl
(mod_item) @module
(type_item) @type
(const_item) @constant
(static_item) @constant
(macro_definition) @macro

(use_declaration argument: [(identifier) @use.import (scoped_identifier name: (identifier) @use.import)])
(use_list [(identifier) @use.import (scoped_identifier name: (identifier) @use.import)])
(use_as_clause path: [(identifier) @use.import (scoped_identifier name: (identifier) @use.import)])
(use_wildcard [(identifier) @use.import (scoped_identifier name: (identifier) @use.import)])
(extern_crate_declaration name: (identifier) @use.import)
(impl_item trait: [(type_identifier) @use.base (generic_type type: (type_identifier) @use.base)
    (scoped_type_identifier name: (type_identifier) @use.base)])
(trait_item bounds: (trait_bounds [(type_identifier) @use.base (generic_type type: (type_identifier) @use.base)]))
(call_expression function: [(identifier) @use.call (field_expression field: (field_identifier) @use.call)
    (scoped_identifier name: (identifier) @use.call) (generic_function function: [(identifier) @use.call
    (field_expression field: (field_identifier) @use.call) (scoped_identifier name: (identifier) @use.call)])])
(macro_invocation macro: [(identifier) @use.call (scoped_identifier name: (identifier) @use.call)])
(struct_expression name: [(type_identifier) @use.call (scoped_type_identifier name: (type_identifier) @use.call)])
(type_identifier) @use.type
