/**
 * Post the rows of an application to Mirrorgate: no change data capture, no message format, each request once.
 *
 * A row is an object of values by column name. It inserts the row with its key or replaces it; `"__op__": "delete"`
 * deletes it. This program registers the table examples.customers, then posts rows to it. Copy `Table`, which repeats a
 * request until the gateway decides on it. A repeat has the same idempotency key, so its rows land once.
 *
 * Usage: rows.mjs
 *
 * MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the rights `ingest` and `register`.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";

/** The gateway cannot take the request now, or may have taken it. */
const RETRIED_STATUSES = new Set([408, 429, 500, 502, 503, 504]);
const MAX_ATTEMPTS = 10;
const COLUMNS = [
  { name: "id", type: "int64", nullable: false },
  { name: "name", type: "string" },
  { name: "balance", type: "decimal(12,2)" },
];

/** A decimal as a text keeps all its digits: a number of JavaScript has 53 bits. */
type Row = Record<string, string | number | boolean | null>;

interface Receipt {
  table: string;
  sequence: number;
  rows: number;
}

/** One table of a gateway. */
class Table {
  constructor(
    private readonly url: string,
    private readonly key: string,
    readonly name: string,
  ) {}

  /** Register the table. A repeat changes nothing. */
  async register(columns: typeof COLUMNS, keyColumns: string[]): Promise<void> {
    await this.send("PUT", `/v1/tables/${this.name}`, { columns, key_columns: keyColumns });
  }

  /** Return the receipt of these rows, which are durable then: all of them, or none if this throws. */
  async post(rows: Row[], operation = "upsert"): Promise<Receipt | undefined> {
    const query = new URLSearchParams({ table: this.name, op: operation });
    const path = `/v1/changes/rows?${query.toString()}`;
    const answer = await this.send<{ receipts: Receipt[] }>("POST", path, rows, { "Idempotency-Key": randomUUID() });
    return answer.receipts[0];
  }

  private async send<Answer>(
    method: string,
    path: string,
    content: unknown,
    headers: Record<string, string> = {},
  ): Promise<Answer> {
    const request = {
      method,
      headers: { ...headers, "Content-Type": "application/json", Authorization: `Bearer ${this.key}` },
      body: JSON.stringify(content),
    };
    for (let attempt = 1; ; attempt += 1) {
      const response = await fetch(this.url + path, { ...request, signal: AbortSignal.timeout(60_000) }).catch(
        (error: unknown) => {
          if (attempt === MAX_ATTEMPTS) throw error;
        },
      );
      if (response && (!RETRIED_STATUSES.has(response.status) || attempt === MAX_ATTEMPTS)) {
        // A rejection names each wrong row by its index, with the code and the remedy.
        if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
        return (await response.json()) as Answer;
      }
      await pause(Math.min(100 * 2 ** attempt, 30_000));
    }
  }
}

const { MIRRORGATE_URL: url = "", MIRRORGATE_API_KEY: key = "" } = process.env;
const customers = new Table(url, key, "examples.customers");
await customers.register(COLUMNS, ["id"]);
console.log(await customers.post([{ id: 1, name: "Ada", balance: "12.50" }, { id: 2, name: "Grace", balance: 0 }]));
console.log(await customers.post([{ id: 1, name: "Ada", balance: 20 }, { id: 2, __op__: "delete" }]));
console.log(await customers.post([{ id: 1 }], "delete"));
