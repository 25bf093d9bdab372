/**
 * Post an outbox file to Mirrorgate, each line exactly once and in order.
 *
 * An application appends a line to the outbox for each of its transactions: one Arcion message, or a JSON array of
 * them. This program posts line n as request n of a producer. The gateway takes request n only after request n - 1, and
 * answers a request that it has already with its first answer. The program therefore keeps no state: it asks
 * for the last durable number, continues behind it, and repeats every request that got no answer.
 *
 * Usage: producer.mjs OUTBOX [--producer NAME] [--follow]
 *
 * MIRRORGATE_URL is the address of the gateway, MIRRORGATE_API_KEY a key with the right `ingest` for the tables.
 * Exit status: 0 every complete line is durable, or SIGTERM or SIGINT stopped the program; 1 a person has to look,
 * because the gateway rejected a line or the outbox is not the one that was sent before; 2 wrong usage.
 */

import { open, type FileHandle } from "node:fs/promises";
import { parse } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { parseArgs } from "node:util";

/** The gateway cannot take the request now, or may have taken it. Every other error needs a person. */
const RETRIED_STATUSES = new Set([408, 429, 500, 502, 503, 504]);
const MAX_REQUEST_MS = 60_000;
const MAX_BACKOFF_MS = 30_000;
const POLL_MS = 200;
const READ_BYTES = 64 * 1024;
const NEWLINE = 0x0a;

interface MessageError {
  index?: number;
  pointer?: string;
  detail: string;
}

/** Problem details (RFC 9457) of a rejected request. */
interface Problem {
  code?: string;
  detail?: string;
  remedy?: string;
  request_id?: string;
  errors?: MessageError[];
}

/** SIGTERM or SIGINT arrived while the program waited to repeat a request. */
class Stopped extends Error {}

/** The producer cannot continue before a person has looked at it. */
class ProducerError extends Error {}

/** The gateway rejected a request. Unchanged, it is rejected again. */
class Rejected extends ProducerError {
  readonly code: string;

  constructor(status: number, problem: Problem) {
    const code = problem.code ?? `status ${status}`;
    const messages = (problem.errors ?? []).map(
      (error) => `message ${error.index ?? 0} ${error.pointer ?? ""}: ${error.detail}`,
    );
    const remedy = problem.remedy ?? "See whether MIRRORGATE_URL is the address of the gateway.";
    const lines = [`${code}: ${problem.detail ?? ""}`, ...messages];
    super([...lines, `remedy: ${remedy}`, `request id: ${problem.request_id ?? "none"}`].join("\n  "));
    this.code = code;
  }
}

/** A named producer of numbered requests. Its numbers belong to the API key. */
class Producer {
  constructor(
    private readonly url: string,
    private readonly key: string,
    readonly name: string,
    private readonly stopping: AbortSignal,
  ) {}

  /** Return the number of the last durable request, 0 before the first. */
  async lastDurableNumber(): Promise<number> {
    try {
      const answer = await this.send<{ sequence: number }>(`/v1/producers/${encodeURIComponent(this.name)}`, {});
      return answer.sequence;
    } catch (error) {
      if (error instanceof Rejected && error.code === "unknown_producer") return 0;
      throw error;
    }
  }

  /** Return the gateway's answer to request `number`: its changes are durable and land once, in order. */
  async post(number: number, body: Buffer): Promise<{ replayed: boolean }> {
    const headers = {
      "Content-Type": "application/json",
      "Mirrorgate-Producer": this.name,
      "Mirrorgate-Producer-Sequence": String(number),
    };
    return this.send("/v1/changes/arcion", { method: "POST", headers, body });
  }

  /** Send a request until the gateway decides on it. Throws Rejected and Stopped. */
  private async send<Answer>(path: string, request: RequestInit): Promise<Answer> {
    const headers = { ...request.headers, Authorization: `Bearer ${this.key}` };
    for (let backoff = 200; ; backoff = Math.min(2 * backoff, MAX_BACKOFF_MS)) {
      let reason: string;
      let retryAfter = 0;
      try {
        const signal = AbortSignal.timeout(MAX_REQUEST_MS);
        const response = await fetch(this.url + path, { ...request, headers, signal });
        const text = await response.text();
        if (!RETRIED_STATUSES.has(response.status)) return content<Answer>(response, text);
        reason = `status ${response.status}`;
        retryAfter = retryAfterMs(response);
      } catch (error) {
        if (error instanceof Rejected) throw error;
        // The request may be durable; repeating it under its number is safe.
        reason = error instanceof Error ? `${error.message} (${String(error.cause ?? error.name)})` : String(error);
      }
      // Random, so that producers that lost the same gateway do not all return at the same moment.
      const wait = Math.max(retryAfter, backoff * (0.5 + Math.random() / 2));
      console.error(`${reason}: repeating the request in ${(wait / 1000).toFixed(1)} s`);
      await pause(wait, undefined, { signal: this.stopping }).catch(() => {
        throw new Stopped();
      });
    }
  }
}

function content<Answer>(response: Response, text: string): Answer {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    // A proxy answered, or another server.
    throw new Rejected(response.status, { detail: text.slice(0, 200) });
  }
  if (!response.ok) throw new Rejected(response.status, parsed as Problem);
  return parsed as Answer;
}

/** Return the time that the gateway asks to wait. A date, which only a proxy sends, counts as 0. */
function retryAfterMs(response: Response): number {
  const seconds = response.headers.get("Retry-After") ?? "";
  return /^\d+$/.test(seconds) ? Number(seconds) * 1000 : 0;
}

/** The lines of an outbox file that ends somewhere in the middle of the next one. */
class Outbox {
  private pending = Buffer.alloc(0);

  constructor(private readonly file: FileHandle) {}

  /**
   * Return the next line that ends with a newline, undefined if there is none yet.
   *
   * The application is still writing a line without a newline. Sent now, half a transaction would take its number.
   */
  async nextLine(): Promise<Buffer | undefined> {
    for (;;) {
      const end = this.pending.indexOf(NEWLINE) + 1;
      if (end > 0) {
        const line = this.pending.subarray(0, end);
        this.pending = this.pending.subarray(end);
        return line;
      }
      const { bytesRead, buffer } = await this.file.read(Buffer.alloc(READ_BYTES), 0, READ_BYTES, null);
      if (bytesRead === 0) return undefined;
      this.pending = Buffer.concat([this.pending, buffer.subarray(0, bytesRead)]);
    }
  }

  /** Skip lines that are durable. Return false if there are fewer. */
  async skip(lines: number): Promise<boolean> {
    for (let skipped = 0; skipped < lines; skipped += 1) {
      if ((await this.nextLine()) === undefined) return false;
    }
    return true;
  }

  get endsInsideALine(): boolean {
    return this.pending.length > 0;
  }
}

/** Post the lines of an outbox that are not durable yet. Throws ProducerError and Stopped. */
async function postOutbox(producer: Producer, path: string, follow: boolean, stopping: AbortSignal): Promise<void> {
  const durable = await producer.lastDurableNumber();
  const file = await open(path);
  try {
    const outbox = new Outbox(file);
    if (!(await outbox.skip(durable))) {
      throw new ProducerError(`${path} has fewer lines than the ${durable} that ${producer.name} has sent before`);
    }
    for (let number = durable + 1; !stopping.aborted; ) {
      const body = await outbox.nextLine();
      if (body !== undefined) {
        await postLine(producer, number, body);
        number += 1;
      } else if (follow) {
        await pause(POLL_MS, undefined, { signal: stopping }).catch(() => undefined);
      } else {
        if (outbox.endsInsideALine) console.error("the last line has no newline: it is not sent");
        return;
      }
    }
  } finally {
    await file.close();
  }
}

async function postLine(producer: Producer, number: number, body: Buffer): Promise<void> {
  try {
    const answer = await producer.post(number, body);
    console.log(`line ${number}: ${answer.replayed ? "durable already" : "durable"}`);
  } catch (error) {
    throw error instanceof Rejected ? new ProducerError(`line ${number}: ${error.message}`) : error;
  }
}

function usageError(message: string): number {
  console.error(`usage: producer.mjs OUTBOX [--producer NAME] [--follow]\nerror: ${message}`);
  return 2;
}

function readArguments() {
  const options = { producer: { type: "string" }, follow: { type: "boolean" } } as const;
  try {
    return { ...parseArgs({ options, allowPositionals: true }), error: undefined };
  } catch (error) {
    return { values: {}, positionals: [], error: (error as Error).message };
  }
}

/** Run the program and return its exit status. */
async function main(): Promise<number> {
  const { MIRRORGATE_URL: url = "", MIRRORGATE_API_KEY: key = "" } = process.env;
  if (!/^https?:\/\//.test(url)) return usageError("MIRRORGATE_URL must begin with http:// or https://");
  if (key === "") return usageError("MIRRORGATE_API_KEY must hold a key");
  const given = readArguments();
  const [path, ...others] = given.positionals;
  if (given.error !== undefined) return usageError(given.error);
  if (path === undefined || others.length > 0) return usageError("name one outbox");

  const stopping = new AbortController();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => stopping.abort());
  const name = given.values.producer ?? parse(path).name;
  const producer = new Producer(url.replace(/\/+$/, ""), key, name, stopping.signal);
  try {
    await postOutbox(producer, path, given.values.follow ?? false, stopping.signal);
    return 0;
  } catch (error) {
    if (error instanceof Stopped) {
      console.error("stopped; start the program again to continue");
      return 0;
    }
    console.error(error instanceof Error ? error.message : error);
    return 1;
  }
}

process.exitCode = await main();
