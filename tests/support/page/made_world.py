"""A made lineage for the tests and the benchmark of the page: a shop, and what is hard to draw.

`shop` is what a user has; `wide` has 300 columns; `hub` has more neighbours than are drawn; `ring` goes in a circle;
`odd` has names that would break a page which takes them for HTML; `big` is 300 datasets with 900 edges.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

DAY = 86_400
HOSTILE = (
    '<img src=x onerror="document.title=1">',
    "\"quotes' & <b>bold</b>",
    "\u202eright to left\u202c שלום",
    "x" * 500,
    "a/b?c=d#e%2F",
    "  blanks  ",
)

Field = tuple[str, str, str]  # namespace, dataset, column
Name = tuple[str, str]


@dataclass(frozen=True, kw_only=True)
class MadeEdge:
    """One column is made from another; without a target column, it decides about all rows of the target."""

    source: Field
    target: Name
    column: str | None
    kinds: tuple[str, ...] = ("IDENTITY",)
    approximate: bool = False
    opaque: bool = False
    masked: bool = False
    age_days: float = 1
    job: str = "load"
    sql: str = "SELECT * FROM source"

    @property
    def is_direct(self) -> bool:
        """Whether values flow, as opposed to rows being chosen."""
        return not {"FILTER", "JOIN", "SORT", "CONDITIONAL"} & set(self.kinds)


@dataclass
class World:
    """All datasets with their columns and types, the edges between columns, and what is tainted."""

    columns: dict[Name, dict[str, str]] = field(default_factory=dict)
    edges: list[MadeEdge] = field(default_factory=list)
    foreign: set[Name] = field(default_factory=set)
    tainted: dict[Name, tuple[int, int | None]] = field(default_factory=dict)
    tainted_fields: set[Field] = field(default_factory=set)

    def add(self, ns: str, dataset: str, columns: str, *, foreign: bool = False) -> None:
        """Declare a dataset: columns are `name type` separated by commas."""
        pairs = (column.strip().split(" ") for column in columns.split(","))
        self.columns[ns, dataset] = {pair[0]: pair[1] if len(pair) > 1 else "STRING" for pair in pairs}
        if foreign:
            self.foreign.add((ns, dataset))

    def link(self, source: str, target: str, kinds: str = "IDENTITY", **more: object) -> None:
        """Add an edge between columns, `database.table.column`; without a column, to all rows of the target."""
        (ns, dataset), columns = target.split(".")[:2], target.split(".")[2:]
        origin, _, name = source.rpartition(".")
        found = next(key for key in self.columns if origin in (".".join(key), key[1]))
        made = {"column": columns[0] if columns else None, "kinds": tuple(kinds.split("+")), **more}
        self.edges.append(MadeEdge(source=(*found, name), target=(ns, dataset), **made))  # type: ignore[arg-type]  # by name


def made_world() -> World:
    """All of it."""
    world = World()
    _shop(world)
    _wide(world)
    _hub(world)
    _ring(world)
    _odd(world)
    _big(world)
    return world


ORDERS_SQL = """INSERT INTO staging.orders
SELECT o.order_id, o.customer_id, CAST(o.amount AS DECIMAL(12, 2)) AS amount,
       upper(o.currency) AS currency, o.ordered_at
FROM kafka.orders AS o
WHERE o.status <> 'cancelled'"""

REVENUE_SQL = """MERGE INTO marts.daily_revenue AS t
USING (
  SELECT date(o.ordered_at) AS day, c.region, sum(o.amount * r.rate) AS revenue_eur,
         count(DISTINCT o.customer_id) AS customers
  FROM staging.orders o
  JOIN staging.customers c USING (customer_id)
  JOIN staging.exchange_rates r ON r.currency = o.currency
  GROUP BY 1, 2
) AS s ON t.day = s.day AND t.region = s.region
WHEN MATCHED THEN UPDATE SET *
WHEN NOT MATCHED THEN INSERT *"""


def _shop(world: World) -> None:
    world.add("kafka", "orders", "order_id BIGINT,customer_id BIGINT,amount STRING,currency,ordered_at,status", foreign=True)
    world.add("kafka", "payments", "payment_id BIGINT,order_id BIGINT,paid STRING,card_number,paid_at", foreign=True)
    world.add("postgres", "crm.customers", "id BIGINT,name,email,country,created_at TIMESTAMP", foreign=True)
    world.add("files", "s3://landing/rates/*.csv", "currency,rate,valid_on", foreign=True)
    world.add(
        "staging", "orders",
        "order_id BIGINT,customer_id BIGINT,amount DECIMAL,currency,ordered_at TIMESTAMP,loaded_at TIMESTAMP,"
        "source_file,batch BIGINT",
    )
    world.add("staging", "payments", "payment_id BIGINT,order_id BIGINT,paid DECIMAL,card,paid_at TIMESTAMP")
    world.add("staging", "customers", "customer_id BIGINT,name,email_hash,region,since DATE")
    world.add("staging", "exchange_rates", "currency,rate DOUBLE,valid_on DATE")
    world.add("core", "orders_paid", "order_id BIGINT,customer_id BIGINT,amount DECIMAL,paid DECIMAL,open DECIMAL,paid_at TIMESTAMP")
    world.add("core", "customer_360", "customer_id BIGINT,name,region,orders BIGINT,spent DECIMAL,last_order TIMESTAMP,score DOUBLE")
    world.add("marts", "daily_revenue", "day DATE,region,revenue_eur DECIMAL,customers BIGINT")
    world.add("marts", "open_items", "order_id BIGINT,open DECIMAL,age_days INT")
    world.add("marts", "churn_features", "customer_id BIGINT,score DOUBLE,spent_90d DECIMAL,label INT")
    world.add("reports", "board", "day DATE,revenue_eur DECIMAL,churn DOUBLE")
    orders = {"job": "load_orders", "sql": ORDERS_SQL, "age_days": 0.1}
    for name in ("order_id", "customer_id", "ordered_at"):
        world.link(f"kafka.orders.{name}", f"staging.orders.{name}", **orders)
    world.link("kafka.orders.amount", "staging.orders.amount", "TRANSFORMATION", **orders)
    world.link("kafka.orders.currency", "staging.orders.currency", "TRANSFORMATION", **orders)
    world.link("kafka.orders.status", "staging.orders", "FILTER", **orders)
    payments = {"job": "load_payments", "age_days": 3}
    for name in ("payment_id", "order_id", "paid_at"):
        world.link(f"kafka.payments.{name}", f"staging.payments.{name}", **payments)
    world.link("kafka.payments.paid", "staging.payments.paid", "TRANSFORMATION", **payments)
    world.link("kafka.payments.card_number", "staging.payments.card", "TRANSFORMATION", masked=True, **payments)
    crm = {"job": "sync_customers", "age_days": 20}
    world.link("crm.customers.id", "staging.customers.customer_id", **crm)
    world.link("crm.customers.name", "staging.customers.name", **crm)
    world.link("crm.customers.email", "staging.customers.email_hash", "TRANSFORMATION", masked=True, **crm)
    world.link("crm.customers.country", "staging.customers.region", "TRANSFORMATION", approximate=True, **crm)
    world.link("crm.customers.created_at", "staging.customers.since", "TRANSFORMATION", **crm)
    for name in ("currency", "rate", "valid_on"):
        world.link(f"s3://landing/rates/*.csv.{name}", f"staging.exchange_rates.{name}", job="load_rates", age_days=1)
    paid = {"job": "match_payments", "age_days": 0.5}
    for name in ("order_id", "customer_id", "amount"):
        world.link(f"staging.orders.{name}", f"core.orders_paid.{name}", **paid)
    world.link("staging.payments.paid", "core.orders_paid.paid", "AGGREGATION", **paid)
    world.link("staging.payments.paid", "core.orders_paid.open", "TRANSFORMATION", **paid)
    world.link("staging.orders.amount", "core.orders_paid.open", "TRANSFORMATION", **paid)
    world.link("staging.payments.paid_at", "core.orders_paid.paid_at", "AGGREGATION", **paid)
    world.link("staging.payments.order_id", "core.orders_paid", "JOIN", **paid)
    world.link("staging.orders.order_id", "core.orders_paid", "JOIN", **paid)
    view = {"job": "customer_360", "age_days": 0.4}
    for name in ("customer_id", "name", "region"):
        world.link(f"staging.customers.{name}", f"core.customer_360.{name}", **view)
    world.link("core.orders_paid.order_id", "core.customer_360.orders", "AGGREGATION", **view)
    world.link("core.orders_paid.paid", "core.customer_360.spent", "AGGREGATION", **view)
    world.link("core.orders_paid.paid_at", "core.customer_360.last_order", "AGGREGATION", **view)
    for name in ("paid", "open", "paid_at"):
        world.link(f"core.orders_paid.{name}", "core.customer_360.score", "TRANSFORMATION", opaque=True, approximate=True, **view)
    world.link("core.orders_paid.customer_id", "core.customer_360", "JOIN", **view)
    revenue = {"job": "daily_revenue", "sql": REVENUE_SQL, "age_days": 0.2}
    world.link("staging.orders.ordered_at", "marts.daily_revenue.day", "TRANSFORMATION", **revenue)
    world.link("staging.customers.region", "marts.daily_revenue.region", **revenue)
    world.link("staging.orders.amount", "marts.daily_revenue.revenue_eur", "AGGREGATION", **revenue)
    world.link("staging.exchange_rates.rate", "marts.daily_revenue.revenue_eur", "AGGREGATION", **revenue)
    world.link("staging.orders.customer_id", "marts.daily_revenue.customers", "AGGREGATION", **revenue)
    world.link("staging.orders.currency", "marts.daily_revenue", "JOIN", **revenue)
    world.link("core.orders_paid.order_id", "marts.open_items.order_id", job="open_items")
    world.link("core.orders_paid.open", "marts.open_items.open", job="open_items")
    world.link("core.orders_paid.open", "marts.open_items", "FILTER", job="open_items")
    for name in ("customer_id", "score"):
        world.link(f"core.customer_360.{name}", f"marts.churn_features.{name}", job="features", age_days=40)
    world.link("core.customer_360.spent", "marts.churn_features.spent_90d", "WINDOW", job="features", age_days=40)
    world.link("marts.daily_revenue.day", "reports.board.day", job="board")
    world.link("marts.daily_revenue.revenue_eur", "reports.board.revenue_eur", "AGGREGATION", job="board")
    world.link("marts.churn_features.score", "reports.board.churn", "AGGREGATION", job="board")
    world.tainted["staging", "exchange_rates"] = (14, 13)
    world.tainted["marts", "daily_revenue"] = (31, 30)
    world.tainted["reports", "board"] = (9, 8)
    world.tainted_fields = {
        ("staging", "exchange_rates", "rate"),
        ("marts", "daily_revenue", "revenue_eur"),
        ("reports", "board", "revenue_eur"),
    }


def _wide(world: World) -> None:
    world.add("wide", "events", ",".join(f"c{at:03} STRING" for at in range(300)))
    world.add("wide", "events_clean", ",".join(f"c{at:03} STRING" for at in range(300)))
    world.edges += [
        MadeEdge(source=("wide", "events", f"c{at:03}"), target=("wide", "events_clean"), column=f"c{at:03}")
        for at in range(0, 300, 5)
    ]
    world.add("wide", "one_to_many", "key STRING,value")
    world.add("wide", "many", ",".join(f"part_{at:02} STRING" for at in range(20)))
    world.edges += [
        MadeEdge(source=("wide", "one_to_many", "key"), target=("wide", "many"), column=f"part_{at:02}") for at in range(20)
    ]


def _hub(world: World) -> None:
    world.add("hub", "calendar", "day DATE,week INT")
    for at in range(340):
        world.add("hub", f"fact_{at:03}", "day DATE,value DOUBLE")
        world.edges.append(MadeEdge(source=("hub", "calendar", "day"), target=("hub", f"fact_{at:03}"), column="day"))


def _ring(world: World) -> None:
    names = ("one", "two", "three")
    for name in names:
        world.add("ring", name, "a,b")
    for source, target in zip(names, (*names[1:], names[0]), strict=True):
        world.edges.append(MadeEdge(source=("ring", source, "a"), target=("ring", target), column="a"))
    world.edges.append(MadeEdge(source=("ring", "two", "a"), target=("ring", "two"), column="b"))


def _odd(world: World) -> None:
    for name in HOSTILE:
        world.columns["odd", name] = dict.fromkeys(HOSTILE, "STRING")
    for source, target in zip(HOSTILE, HOSTILE[1:], strict=False):
        world.edges += [
            MadeEdge(
                source=("odd", source, column), target=("odd", target), column=column, job=HOSTILE[0], sql=HOSTILE[0]
            )
            for column in HOSTILE
        ]


def _big(world: World, *, boxes: int = 300, edges: int = 900) -> None:
    """Layers of 25 boxes: everything is made from a column of the first box, by way of the layers."""
    names = [f"table_{at:03}" for at in range(boxes)]
    for name in names:
        world.columns["big", name] = {f"column_{at}": "BIGINT" for at in range(8)}
    world.edges += _layered(names, edges)


def _layered(names: Sequence[str], edges: int) -> Iterator[MadeEdge]:
    chance = random.Random(1)
    made: dict[str, list[str]] = {names[0]: ["column_0"]}  # what is reached of each box
    ends: dict[tuple[str, str, str, str], None] = {}
    for at, name in enumerate(names[1:], 1):
        made[name] = ["column_0"]
        ends[names[max(0, at - 25)], "column_0", name, "column_0"] = None
    while len(ends) < edges:
        at = chance.randrange(25, len(names))
        source = names[max(0, at // 25 * 25 - 1 - chance.randrange(30))]
        column = f"column_{chance.randrange(8)}"
        ends[source, chance.choice(made[source]), names[at], column] = None
        made[names[at]].append(column)
    for source, column, target, to in ends:
        yield MadeEdge(source=("big", source, column), target=("big", target), column=to)
