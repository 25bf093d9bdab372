// Registers a table, posts changes and reads its status with types that openapi-typescript generated.
import createClient from "openapi-fetch";
import type { components, paths } from "./mirrorgate.js";

type Schemas = components["schemas"];

const client = createClient<paths>({
  baseUrl: process.env.MIRRORGATE_URL,
  headers: { Authorization: `Bearer ${process.env.MIRRORGATE_API_KEY}` },
});

function accepted<Answer>(result: { data?: Answer; error?: Schemas["ProblemModel"] }): Answer {
  if (result.data === undefined) throw new Error(`${result.error?.code}: ${result.error?.detail}`);
  return result.data;
}

function insert(order: string, total: string): Schemas["ArcionMessage"] {
  return {
    tableName: { namespace: { schema: "typescript" }, name: "orders" },
    opType: "I",
    after: { id: order, total },
    exists: { id: "1", total: "1" },
  };
}

const table = accepted(
  await client.PUT("/v1/tables/{table}", {
    params: { path: { table: "typescript.orders" } },
    body: {
      key_columns: ["id"],
      columns: [
        { name: "id", type: "int64", nullable: false },
        { name: "total", type: "decimal(8,2)" },
      ],
    },
  }),
);
console.log(`registered ${table.table}, generation ${table.generation}`);

async function post(body: Schemas["ArcionMessage"][], key: string): Promise<Schemas["AcceptedModel"]> {
  const header = { "Idempotency-Key": key };
  const answer = accepted(await client.POST("/v1/changes/arcion", { params: { header }, body }));
  if (!("receipts" in answer)) throw new Error("this was a dry run");
  return answer;
}

const orders = [insert("1", "9.50"), insert("2", "20.00")];
const first = await post(orders, "typescript-orders-1-2");
console.log(`accepted ${first.receipts[0]?.changes} changes as batch ${first.receipts[0]?.sequence}`);

const again = await post(orders, "typescript-orders-1-2");
console.log(`${again.replayed ? "repeated: still" : "a new"} batch ${again.receipts[0]?.sequence}`);

const messages: Schemas["ReplicateMessage"][] = [
  {
    magic: "atMSG",
    type: "MD",
    message: {
      schemaId: "8c2d",
      lineage: { schema: "typescript", table: "JOBS", tableVersion: 1 },
      tableStructure: {
        tableColumns: { ID: { ordinal: 1, type: "INT4", primaryKeyPosition: 1, nullable: false } },
      },
    },
  },
  {
    magic: "atMSG",
    type: "DT",
    messageSchemaId: "8c2d",
    message: { data: { ID: 7 }, headers: { operation: "INSERT" } },
  },
];
const jobs = accepted(
  await client.POST("/v1/changes/replicate", {
    params: { header: { "Idempotency-Key": "typescript-jobs-1" } },
    body: messages,
  }),
);
if ("receipts" in jobs) console.log(`accepted ${jobs.receipts[0]?.rows} row of ${jobs.receipts[0]?.table}`);

const id = { name: "id", type: "int64", nullable: false } as const;
accepted(
  await client.PUT("/v1/tables/{table}", {
    params: { path: { table: "typescript.clicks" } },
    body: { key_columns: ["id"], columns: [id] },
  }),
);
const rows = accepted(
  await client.POST("/v1/changes/rows", {
    params: {
      query: { table: "typescript.clicks" },
      header: {
        "Mirrorgate-Producer": "typescript/clicks",
        "Mirrorgate-Producer-Sequence": 1,
        "Mirrorgate-Producer-Position": "line 2",
      },
    },
    body: [{ id: 1 }, { id: 2 }],
  }),
);
const { position } = accepted(
  await client.GET("/v1/producers/{producer}", { params: { path: { producer: "typescript/clicks" } } }),
);
if ("receipts" in rows) {
  console.log(`accepted ${rows.receipts[0]?.rows} rows of ${rows.receipts[0]?.table}, up to ${position}`);
}

const event: Schemas["DebeziumEnvelope"] = {
  op: "c",
  before: null,
  after: { id: 3 },
  source: { schema: "typescript", table: "clicks" },
};
const events = accepted(
  await client.POST("/v1/changes/debezium", {
    params: { header: { "Idempotency-Key": "typescript-clicks-3" } },
    body: [event],
  }),
);
if ("receipts" in events) {
  console.log(`accepted ${events.receipts[0]?.changes} event of ${events.receipts[0]?.table}`);
}

const status = accepted(await client.GET("/v1/tables/{table}", { params: { path: { table: "typescript.orders" } } }));
console.log(`${status.table}: ${status.accepted.rows} rows accepted, state ${status.state}`);

const { error, response } = await client.POST("/v1/changes/arcion", { body: insert("3", "a lot") });
const problem = error?.errors?.[0];
console.log(`rejected: ${error?.code} at ${problem?.pointer}, column ${problem?.column}`);
if (response.headers.get("X-Request-Id") !== error?.request_id) throw new Error("not the id of this request");
