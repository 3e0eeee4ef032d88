(class) @class
(module) @module
(method) @method
(singleton_method) @method
(assignment left: (constant)) @constant

(call method: (identifier) @_require arguments: (argument_list . (string (string_content) @use.import))
    (#match? @_require "^require"))
(superclass [(constant) @use.base (scope_resolution name: (constant) @use.base)])
(call method: (identifier) @_include arguments: (argument_list . [(constant) @use.base (scope_resolution name: (constant) @use.base)])
    (#any-of? @_include "include" "extend" "prepend"))
(call receiver: [(constant) @use.call (scope_resolution name: (constant) @use.call)] method: (identifier) @_new (#eq? @_new "new"))
(call method: [(identifier) (constant)] @use.call)
(constant) @use.type
