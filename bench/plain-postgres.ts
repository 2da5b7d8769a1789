/** Writes rows to PostgreSQL as one would without a gateway: one `INSERT` a commit, over as many connections as there are clients. */
import pg from 'pg';

const TITLE = 'a note';
const BODY = 'Some words that somebody wrote down, of the length that notes have as a rule.';

/** What each write of the contenders stores. */
export const NOTE = [TITLE, BODY] as const;

export class PlainPostgres {
  readonly #connections: pg.Client[];

  private constructor(connections: pg.Client[]) {
    this.#connections = connections;
  }

  /** Makes its table in the database, beside those of a cluster. */
  static async open(url: string, clients: number): Promise<PlainPostgres> {
    const connections = Array.from({ length: clients }, () => new pg.Client({ connectionString: url }));
    await Promise.all(connections.map((client) => client.connect()));
    await connections[0]?.query('CREATE TABLE notes (id bigserial PRIMARY KEY, title text, body text)');
    return new PlainPostgres(connections);
  }

  /** Resolves after the commit. `client` is one of the connections. */
  async write(client: number): Promise<void> {
    await (this.#connections[client] as pg.Client).query({
      name: 'insert',
      text: 'INSERT INTO notes (title, body) VALUES ($1, $2) RETURNING id',
      values: [...NOTE],
    });
  }

  async close(): Promise<void> {
    await Promise.all(this.#connections.map((client) => client.end()));
  }
}

/** Each client writes again once its write is durable. Answers how many a second, and the milliseconds of each. */
export async function closedLoop(
  write: (client: number) => Promise<unknown>,
  clients: number,
  ms: number,
): Promise<{ rate: number; latencies: number[] }> {
  const latencies: number[] = [];
  const begunAt = performance.now();
  const client = async (index: number): Promise<void> => {
    for (let now = begunAt; now - begunAt < ms; ) {
      await write(index);
      const at = performance.now();
      latencies.push(at - now);
      now = at;
    }
  };
  await Promise.all(Array.from({ length: clients }, (_, index) => client(index)));
  return { rate: (latencies.length / (performance.now() - begunAt)) * 1000, latencies };
}
