-- One table of 200,000 rows, indexed and grouped, all in memory.
CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, kind INTEGER, price REAL);
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < 200000)
INSERT INTO item SELECT n, 'item-' || n || '-' || hex(n * 7919 % 100003), n % 997, n * 0.25 FROM number;
CREATE INDEX item_name ON item (name);
CREATE INDEX item_kind ON item (kind, price);
SELECT kind, count(*), sum(price), group_concat(substr(name, 6, 3)) FROM item GROUP BY kind ORDER BY 3 DESC LIMIT 5;
SELECT upper(name) || lower(name), count(*) FROM item WHERE name LIKE 'item-1%' GROUP BY kind % 50, length(name) LIMIT 5;
UPDATE item SET name = replace(name, 'item', 'thing') WHERE kind % 2 = 0;
SELECT count(DISTINCT name), max(length(name)) FROM item;
