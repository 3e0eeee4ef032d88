-- Where a node can be opened in a browser; hits of its text name it.

ALTER TABLE content_node ADD COLUMN url text;
