(class_declaration) @class
(record_declaration) @class
(struct_declaration) @struct
(interface_declaration) @interface
(enum_declaration) @enum
(delegate_declaration) @type
(namespace_declaration) @module
(method_declaration) @method
(constructor_declaration) @method
(local_function_statement) @function
(property_declaration accessors: (accessor_list (accessor_declaration body: (_)))) @property
(property_declaration value: (arrow_expression_clause)) @property

(using_directive [(identifier) @use.import (qualified_name) @use.import])
(base_list [(identifier) @use.base (generic_name (identifier) @use.base) (qualified_name name: (identifier) @use.base)])
(invocation_expression function: [(identifier) @use.call (generic_name (identifier) @use.call)
    (member_access_expression name: [(identifier) @use.call (generic_name (identifier) @use.call)])
    (conditional_access_expression (member_binding_expression name: (identifier) @use.call))])
(object_creation_expression type: [(identifier) @use.call (generic_name (identifier) @use.call)
    (qualified_name name: (identifier) @use.call)])
(attribute name: (identifier) @use.type)
(_ type: [(identifier) @use.type (generic_name (identifier) @use.type) (nullable_type type: (identifier) @use.type)])
(_ returns: [(identifier) @use.type (generic_name (identifier) @use.type)])
(type_argument_list (identifier) @use.type)
