"""Facts about code beyond its stored names: reads of names, meanings of calls, and places that a change affects."""
