"""More queries, over the fields of structs (`queries.py`)."""
# ruff: noqa: E501  a query is read best on one line

from __future__ import annotations

from testkit.streams.queries import Query

# The fields of an order, and expressions over them with whether Spark finds what they name.
ORDER = "id BIGINT, customer STRUCT<country: STRING, `first name`: STRING>, items ARRAY<STRUCT<price: INT>>, tags MAP<STRING, INT>, note STRING"
ORDER_FIELDS = (
    ("o.customer.country", True),
    ("o.Customer.COUNTRY", True),
    ("o.customer.`first name`", True),
    ("o.items.price", True),
    ("o.tags.anything", True),
    ("o.tags['anything']", True),
    ("o['customer'].country", True),
    ("o['customer']['country']", True),
    ("(o.customer).country", True),
    ("o.items[0].price", True),
    ("o.items['price']", True),
    ("element_at(o.items, 1).price", True),
    ("transform(o.items, x -> x.price)", True),
    ("filter(o.items, (x, i) -> x.price > i)[0].price", True),
    ("aggregate(o.items, 0, (sum, x) -> sum + x.price)", True),
    ("struct(o.*).customer.country", True),
    ("struct(o.customer).customer.country", True),
    ("named_struct('c', o.customer).c.country", True),
    ("o.customer.contry", False),
    ("o.custmer.country", False),
    ("o.contry", False),
    ("o.items.prise", False),
    ("o.id.part", False),
    ("o.note.part", False),
    ("o['custmer']", False),
    ("o['customer'].contry", False),
    ("o['customer']['contry']", False),
    ("(o.customer).contry", False),
    ("o.items[0].prise", False),
    ("o.items['prise']", False),
    ("element_at(o.items, 1).prise", False),
    ("transform(o.items, x -> x.prise)", False),
    ("exists(o.items, x -> x.prise > 1)", False),
    ("filter(o.items, (x, i) -> x.price > i)[0].prise", False),
    ("struct(o.*).custmer", False),
    ("struct(o.customer).customer.contry", False),
    ("named_struct('c', o.customer).c.contry", False),
    ("named_struct('c', o.customer).customer", False),
)
ORDER_OF_JSON = f"from_json(CAST(value AS STRING), '{ORDER}')"
# Queries over a view with a column o of orders, with who accepts them.
_OVER_ORDERS = (
    ("SELECT country FROM (SELECT o.customer.* FROM orders)", "CAUSR"),
    ("SELECT price FROM (SELECT orders.o.* EXCEPT (id), 1 AS price FROM orders)", "CAUSR"),
    ("SELECT o.* EXCEPT (id, note) FROM orders", "CAUSR"),
    ("SELECT orders.* FROM orders", "CAUSR"),
    ("SELECT contry FROM (SELECT o.customer.* FROM orders)", ""),
    ("SELECT id FROM (SELECT o.* EXCEPT (id) FROM orders)", ""),
    ("SELECT o.* EXCEPT (idd) FROM orders", ""),
    ("SELECT o.custmer.* FROM orders", ""),
    ("SELECT p.* FROM orders", ""),
    ("SELECT o.id.* FROM orders", ""),
    ("SELECT item.price FROM orders LATERAL VIEW explode(o.items) AS item", "AUSR"),
    ("SELECT t.item.price, key FROM orders LATERAL VIEW explode(o.items) t AS item", "AUSR"),
    ("SELECT i, item.price FROM orders LATERAL VIEW posexplode(o.items) AS i, item", "AUSR"),
    ("SELECT k, v FROM orders LATERAL VIEW OUTER explode(o.tags) AS k, v", "AUSR"),
    ("SELECT col.price FROM orders LATERAL VIEW explode(o.items) t", "AUSR"),
    ("SELECT item.prise FROM orders LATERAL VIEW explode(o.items) AS item", ""),
    ("SELECT item.price FROM orders LATERAL VIEW explode(o.itms) AS item", ""),
    ("SELECT itm.price FROM orders LATERAL VIEW explode(o.items) AS item", ""),
    ("SELECT item.price FROM (SELECT explode(o.items) AS item FROM orders)", "AUSR"),
    ("SELECT item.prise FROM (SELECT explode(o.items) AS item FROM orders)", ""),
    ("SELECT price FROM (SELECT inline(o.items) FROM orders)", "AUSR"),
    ("SELECT prise FROM (SELECT inline(o.items) FROM orders)", ""),
    ("SELECT max(o.customer).country FROM orders", "UM"),
    ("SELECT max(o.customer).contry FROM orders", ""),
    ("SELECT o.customer AS c, c.country FROM orders", "CAUSR"),
    ("SELECT o.customer AS c, c.contry FROM orders", ""),
    (
        "SELECT o.customer AS c, count(*) FROM orders GROUP BY o.customer HAVING c.country = 'x'",
        "UM",
    ),
    ("SELECT o.customer AS c, count(*) FROM orders GROUP BY o.customer HAVING c.contry = 'x'", ""),
)
_DEEP = "from_json(CAST(value AS STRING), 'a STRUCT<b: STRUCT<c: STRUCT<d: STRUCT<e: INT>>>>')"
_EXAMPLE = """from_json(CAST(value AS STRING), schema_of_json('{"a": {"b": 1}, "c": [{"d": 1}, {"e": "x"}]}'))"""
_AVRO = """from_avro(value, '{"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", {"type": "array", "items": {"type": "record", "name": "s", "fields": [{"name": "b", "type": "string"}]}}]}]}')"""
STRUCTS = (
    Query("SELECT from_json(CAST(value AS STRING), 'a STRUCT<b: INT>').a.b FROM source", "CAUSR"),
    *(
        Query(
            f"SELECT {fields} AS x FROM (SELECT {made} AS o FROM source)",
            "CAUSR" if exists else "",
        )
        for made in (
            ORDER_OF_JSON,
            f"from_json(CAST(value AS STRING), 'STRUCT<{ORDER}>', map('mode', 'FAILFAST'))",
            f"from_xml(CAST(value AS STRING), '{ORDER}')",
            f"CAST(NULL AS STRUCT<{ORDER}>)",
        )
        for fields, exists in ORDER_FIELDS
    ),
    Query(
        "SELECT o[0].price AS x FROM (SELECT from_json(CAST(value AS STRING), 'ARRAY<STRUCT<price: INT>>') AS o FROM source)",
        "CAUSR",
    ),
    Query(
        "SELECT o.price AS x FROM (SELECT from_json(CAST(value AS STRING), 'ARRAY<STRUCT<price: INT>>') AS o FROM source)",
        "CAUSR",
    ),
    Query(
        "SELECT o.prise AS x FROM (SELECT from_json(CAST(value AS STRING), 'ARRAY<STRUCT<price: INT>>') AS o FROM source)",
        "",
    ),
    Query(
        "SELECT o.anything AS x FROM (SELECT from_json(CAST(value AS STRING), 'MAP<STRING, INT>') AS o FROM source)",
        "CAUSR",
    ),
    Query(
        'SELECT o.a.b AS x FROM (SELECT from_json(CAST(value AS STRING), schema_of_json(\'{"a": {"b": 1}}\')) AS o FROM source)',
        "CAUSR",
    ),
    Query(
        "WITH p AS (SELECT from_json(CAST(value AS STRING), 'customer STRUCT<country: STRING>') AS o FROM source) SELECT p.o.customer.country AS x FROM p WHERE p.o.customer.country IS NOT NULL",
        "AUSR",
    ),
    Query(
        "WITH p AS (SELECT from_json(CAST(value AS STRING), 'customer STRUCT<country: STRING>') AS o FROM source) SELECT key FROM (SELECT o, 1 AS key FROM p) WHERE o.customer.contry = 'x'",
        "",
    ),
    *(
        Query(
            sql.replace(
                "FROM orders", f"FROM (SELECT key, {ORDER_OF_JSON} AS o FROM source) orders"
            ),
            accepted,
        )
        for sql, accepted in _OVER_ORDERS
    ),
    *(
        Query(f"SELECT {fields} AS x FROM (SELECT {made} AS o FROM source)", accepted)
        for made, fields, accepted in (
            (_DEEP, "o.a.b.c.d.e", "CAUSR"),
            (_DEEP, "o.a.b.c.d.f", ""),
            (_DEEP, "o.a.b.c.x.e", ""),
            (_DEEP, "o.a.b.c.d.e.f", ""),
            (_EXAMPLE, "o.a.b", "CAUSR"),
            (_EXAMPLE, "o.c.d", "CAUSR"),
            (_EXAMPLE, "o.c.e", "CAUSR"),
            (_EXAMPLE, "o.a.c", ""),
            (_EXAMPLE, "o.c.f", ""),
            (_EXAMPLE, "o.a.b.c", ""),
            ("struct(key, value AS v, 1)", "o.key", "CAUSR"),
            ("struct(key, value AS v, 1)", "o.v", "CAUSR"),
            ("struct(key, value AS v, 1)", "o.col3", "CAUSR"),
            ("struct(key, value AS v, 1)", "o.value", ""),
            ("struct(upper(topic), (key), source.value)", "o.col1", "CAUSR"),
            ("struct(upper(topic), (key), source.value)", "o.key", "CAUSR"),
            ("struct(upper(topic), (key), source.value)", "o.value", "CAUSR"),
            ("struct(*)", "o.topic", "CAUSR"),
            ("struct(*)", "o.tpic", ""),
            ("named_struct('a', key, 'B', struct(value))", "o.b.value", "CAUSR"),
            ("named_struct('a', key, 'B', struct(value))", "o.b.valu", ""),
            ("window(timestamp, '1 hour')", "o.end", "CAUSR"),
            ("window(timestamp, '1 hour')", "o.ende", ""),
        )
    ),
    Query(
        f"SELECT o.a.b AS x FROM (SELECT {_AVRO} AS o FROM source)",
        "",
        refused_by_spark_only="CAUSR",
    ),
    Query(f"SELECT o.a.c AS x FROM (SELECT {_AVRO} AS o FROM source)", ""),
    Query("SELECT window.strat, count(*) FROM source GROUP BY window(timestamp, '1 hour')", ""),
    Query("SELECT window.start, count(*) FROM source GROUP BY window(timestamp, '1 hour')", "UM"),
    Query(
        "SELECT w.ende FROM (SELECT window AS w, count(*) FROM source GROUP BY window(timestamp, '1 hour'))",
        "",
    ),
    Query(
        "SELECT w.end FROM (SELECT window AS w, count(*) FROM source GROUP BY window(timestamp, '1 hour'))",
        "UM",
    ),
)
