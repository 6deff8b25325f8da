-- Version 2 to 3. The tables are the same, but earlier releases do not know the records of internal queues and the
-- present form of the outbox: they must not open the database.
SELECT 1
