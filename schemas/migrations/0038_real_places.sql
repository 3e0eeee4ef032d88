-- Where the path of a granted folder led when it was granted.

-- null: a bucket, or a folder that the previous release granted; it is noted when a process first opens the folder
ALTER TABLE source_grant ADD COLUMN real_place text;
