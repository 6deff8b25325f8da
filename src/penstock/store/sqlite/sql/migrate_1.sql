-- Version 1 to 2. Contents may be encrypted from here on: a program that knows nothing of it must not hand them out.
CREATE TABLE seals (name BLOB PRIMARY KEY) WITHOUT ROWID;
