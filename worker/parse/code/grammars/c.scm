(function_definition) @function
(struct_specifier name: (_) body: (_)) @struct
(union_specifier name: (_) body: (_)) @struct
(enum_specifier name: (_) body: (_)) @enum
(type_definition type: [(struct_specifier body: (_)) (union_specifier body: (_))]) @struct
(type_definition type: (enum_specifier body: (_))) @enum
(type_definition type: [(type_identifier) (primitive_type) (sized_type_specifier) (struct_specifier !body)
    (enum_specifier !body)]) @type
(preproc_def value: (_)) @constant
(preproc_function_def) @macro

(preproc_include path: [(string_literal (string_content) @use.import) (system_lib_string) @use.import])
(call_expression function: [(identifier) @use.call (field_expression field: (field_identifier) @use.call)])
(type_identifier) @use.type
