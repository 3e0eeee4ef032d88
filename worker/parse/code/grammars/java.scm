(class_declaration) @class
(record_declaration) @class
(interface_declaration) @interface
(annotation_type_declaration) @interface
(enum_declaration) @enum
(method_declaration) @method
(constructor_declaration) @method
(compact_constructor_declaration) @method

(import_declaration [(scoped_identifier name: (identifier) @use.import) (identifier) @use.import])
(superclass [(type_identifier) @use.base (generic_type (type_identifier) @use.base) (scoped_type_identifier (type_identifier) @use.base .)])
(type_list [(type_identifier) @use.base (generic_type (type_identifier) @use.base) (scoped_type_identifier (type_identifier) @use.base .)])
(method_invocation name: (identifier) @use.call)
(object_creation_expression type: [(type_identifier) @use.call (generic_type (type_identifier) @use.call)
    (scoped_type_identifier (type_identifier) @use.call .)])
(method_reference (identifier) @use.call .)
(marker_annotation name: (identifier) @use.type)
(annotation name: (identifier) @use.type)
(type_identifier) @use.type
