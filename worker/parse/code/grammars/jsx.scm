; Lower-case names are HTML elements.
(jsx_opening_element name: (identifier) @use.call (#match? @use.call "^[A-Z]"))
(jsx_self_closing_element name: (identifier) @use.call (#match? @use.call "^[A-Z]"))
