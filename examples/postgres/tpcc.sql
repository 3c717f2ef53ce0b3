-- The nine tables of TPC-C for examples/tpcc-like.toml, filled:
--   psql -v warehouses=4 -v customers=3000 -v items=100000 -f examples/postgres/tpcc.sql bench
-- A warehouse has 10 districts, and each as many customers (with one order each, the newest third of
-- which is undelivered) as is said. The full size, as above, is some 80 MB for each warehouse.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
BEGIN;
DROP TABLE IF EXISTS history, new_order, order_line, orders, stock, item, customer, district, warehouse;
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_ytd numeric NOT NULL) WITH (fillfactor = 50);
CREATE TABLE district (
    d_w_id int, d_id int, d_ytd numeric NOT NULL, d_next_o_id int NOT NULL, PRIMARY KEY (d_w_id, d_id)
) WITH (fillfactor = 50);
CREATE TABLE customer (
    c_w_id int, c_d_id int, c_id int, c_balance numeric NOT NULL, c_ytd_payment numeric NOT NULL,
    c_payment_cnt int NOT NULL, c_delivery_cnt int NOT NULL, c_data text NOT NULL,
    PRIMARY KEY (c_w_id, c_d_id, c_id)
);
CREATE TABLE item (i_id int PRIMARY KEY, i_price numeric NOT NULL, i_name text NOT NULL);
CREATE TABLE stock (
    s_w_id int, s_i_id int, s_quantity int NOT NULL, s_ytd int NOT NULL, s_order_cnt int NOT NULL,
    s_data text NOT NULL, PRIMARY KEY (s_w_id, s_i_id)
);
CREATE TABLE orders (
    o_w_id int, o_d_id int, o_id int, o_c_id int NOT NULL, o_carrier_id int, o_ol_cnt int NOT NULL,
    o_entry_d timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (o_w_id, o_d_id, o_id)
);
CREATE TABLE new_order (no_w_id int, no_d_id int, no_o_id int, PRIMARY KEY (no_w_id, no_d_id, no_o_id));
CREATE TABLE order_line (
    ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int NOT NULL, ol_quantity int NOT NULL,
    ol_amount numeric NOT NULL, ol_delivery_d timestamptz, PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)
);
CREATE TABLE history (
    h_w_id int NOT NULL, h_d_id int NOT NULL, h_c_id int NOT NULL, h_amount numeric NOT NULL,
    h_date timestamptz NOT NULL DEFAULT now()
);

INSERT INTO item SELECT i, 1 + i % 100, md5(i::text) FROM generate_series(1, :items) AS i;
INSERT INTO warehouse SELECT w, 0 FROM generate_series(1, :warehouses) AS w;
INSERT INTO district SELECT w_id, d, 0, :customers + 1 FROM warehouse, generate_series(1, 10) AS d;
INSERT INTO customer
SELECT d_w_id, d_id, c, 0, 0, 0, 0, repeat(md5(c::text), 12) FROM district, generate_series(1, :customers) AS c;
INSERT INTO stock SELECT w_id, i_id, 10 + i_id % 91, 0, 0, md5(i_name) FROM warehouse, item;
-- A customer's one order has a number that no pattern of the customers has.
INSERT INTO orders (o_w_id, o_d_id, o_id, o_c_id, o_carrier_id, o_ol_cnt)
SELECT c_w_id, c_d_id, row_number() OVER (PARTITION BY c_w_id, c_d_id ORDER BY md5(c_id::text)), c_id, 1, 10
FROM customer;
INSERT INTO order_line
SELECT o_w_id, o_d_id, o_id, n, 1 + (o_id * 10 + n) % :items, 5, 0, now() FROM orders, generate_series(1, 10) AS n;
INSERT INTO new_order SELECT o_w_id, o_d_id, o_id FROM orders WHERE o_id > 2 * :customers / 3;
UPDATE orders SET o_carrier_id = NULL FROM new_order
WHERE o_w_id = no_w_id AND o_d_id = no_d_id AND o_id = no_o_id;
UPDATE order_line SET ol_delivery_d = NULL FROM new_order
WHERE ol_w_id = no_w_id AND ol_d_id = no_d_id AND ol_o_id = no_o_id;
CREATE INDEX ON orders (o_w_id, o_d_id, o_c_id, o_id);
COMMIT;
VACUUM ANALYZE;
