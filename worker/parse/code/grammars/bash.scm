(function_definition) @function

(command name: (command_name (word) @_source) . argument: (word) @use.import (#any-of? @_source "source" "."))
(command name: (command_name (word) @use.call))
