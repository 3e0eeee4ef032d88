(field_definition property: [(property_identifier) (private_property_identifier)]
    value: [(arrow_function) (function_expression)]) @method
(class_heritage [(identifier) @use.base (member_expression property: (property_identifier) @use.base)
    (call_expression function: (identifier) @use.base)])
