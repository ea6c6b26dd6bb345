SELECT l_orderkey, l_partkey, l_suppkey, l_linenumber, l_quantity::DECIMAL(15,2) AS l_quantity,
  l_extendedprice::DECIMAL(15,2) AS l_extendedprice, l_discount::DECIMAL(15,2) AS l_discount, l_tax::DECIMAL(15,2) AS l_tax,
  l_returnflag, l_linestatus, l_shipdate::DATE AS l_shipdate, l_commitdate::DATE AS l_commitdate,
  l_receiptdate::DATE AS l_receiptdate, l_shipinstruct, l_shipmode, l_comment
FROM lineitem
